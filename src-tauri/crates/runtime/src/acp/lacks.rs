//! What an agent cannot do (R2): by what it says when it is greeted, and by what the contract scenarios have shown of it.

use agent_client_protocol::v1::schema::InitializeResponse;
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
pub(super) fn told(hello: &InitializeResponse) -> Vec<Power> {
    let can = &hello.agent_capabilities;
    let resumes = can.load_session || can.session_capabilities.resume.is_some();
    let all = [(resumes, Power::Resume), (takes_our_server(hello), Power::Mcp)];
    all.into_iter().filter(|(can, _)| !can).map(|(_, power)| power).collect()
}

/// Whether it can be given our MCP server and its token. Claude's adapter hands both to Claude Code as arguments, where every
/// program of this machine can read them (M1; seen with 0.49): it gets none.
pub(super) fn takes_our_server(hello: &InitializeResponse) -> bool {
    let shows_it = hello.agent_info.as_ref().is_some_and(|info| info.name.contains("claude-agent-acp"));
    hello.agent_capabilities.mcp_capabilities.http && !shows_it
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::{
        schema::ProtocolVersion,
        v1::schema::{AgentCapabilities, Implementation, McpCapabilities},
    };

    use super::*;

    #[test]
    fn a_greeting_tells_what_is_missing() {
        let hello = |can| InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(can);
        assert_eq!(told(&hello(AgentCapabilities::new())), [Power::Resume, Power::Mcp]);
        let can = AgentCapabilities::new().load_session(true).mcp_capabilities(McpCapabilities::new().http(true));
        assert_eq!(told(&hello(can.clone())), []);
        // M1: an agent that would show the token to the whole machine is given none, whatever it says that it takes.
        let named = |name: &str| hello(can.clone()).agent_info(Implementation::new(name, "0.49.0"));
        assert_eq!(told(&named("@agentclientprotocol/claude-agent-acp")), [Power::Mcp]);
        assert_eq!(told(&named("gemini-cli")), []);
    }
}
