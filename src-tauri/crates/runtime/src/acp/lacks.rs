//! What an agent cannot do (R2): by what it says when it is greeted, and by what the contract scenarios have shown of it.

use agent_client_protocol::v1::schema::AgentCapabilities;
use changeover_core::{power::Power, provider::ProviderId};

/// What an agent lacks without saying so; each line is proved on the real one, in `tests/contract/scenarios`.
pub(super) fn known(id: &ProviderId) -> &'static [Power] {
    match id.as_str() {
        // It takes our server, and has nothing that would call a tool.
        "practice" => &[Power::Mcp],
        _ => &[],
    }
}

/// What its greeting says that it lacks.
pub(super) fn told(can: &AgentCapabilities) -> Vec<Power> {
    let resumes = can.load_session || can.session_capabilities.resume.is_some();
    let all = [(resumes, Power::Resume), (can.mcp_capabilities.http, Power::Mcp)];
    all.into_iter().filter(|(can, _)| !can).map(|(_, power)| power).collect()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::McpCapabilities;

    use super::*;

    #[test]
    fn a_greeting_tells_what_is_missing() {
        assert_eq!(told(&AgentCapabilities::new()), [Power::Resume, Power::Mcp]);
        let can = AgentCapabilities::new().load_session(true).mcp_capabilities(McpCapabilities::new().http(true));
        assert_eq!(told(&can), []);
    }
}
