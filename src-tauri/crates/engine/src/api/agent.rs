//! `agent/…`: the agents that speak ACP, known ones and the user's own (R1).

use changeover_core::failure::Failure;
use changeover_runtime::{
    acp::{AcpRuntime, KNOWN, Known, Program, Report},
    session::AgentRuntime,
};

use super::{
    Api,
    error::{ApiError, ErrorCode},
    types::{
        AgentListResponse, AgentRemoveParams, AgentReport, AgentSetParams, AgentTestParams, AgentTestResponse,
        AgentView, Nothing,
    },
};
use crate::{agent, catalogue::model_views, engine::read, secret::Secrets};

pub(super) async fn list(api: &Api<'_>, _: Nothing) -> Result<AgentListResponse, ApiError> {
    let inner = api.inner;
    let mut agents = Vec::new();
    for known in KNOWN {
        let Some(agent) = known.agent().filter(|agent| inner.runtimes.get(&agent.id).is_some()) else { continue };
        agents.push(AgentView {
            name: known.name.to_owned(),
            known: true,
            command: known.program.to_owned(),
            args: agent.args,
            env: Vec::new(),
            install: Some(format!("{}.", known.install)),
            login: Some(known.login.to_owned()),
            provider: inner.catalogue.view(&agent.id),
            id: agent.id,
        });
    }
    for own in inner.own_agents().await? {
        let id = own.id()?;
        agents.push(AgentView {
            env: own.variables(&inner.secrets),
            provider: inner.catalogue.view(&id),
            id,
            name: own.name,
            known: false,
            command: own.command,
            args: own.args,
            install: None,
            login: None,
        });
    }
    Ok(AgentListResponse { agents, secrets_last: Secrets::LAST })
}

pub(super) async fn set(api: &Api<'_>, params: AgentSetParams) -> Result<AgentListResponse, ApiError> {
    api.inner.set_agent(params.agent, params.change).await?;
    list(api, Nothing {}).await
}

pub(super) async fn remove(api: &Api<'_>, params: AgentRemoveParams) -> Result<AgentListResponse, ApiError> {
    api.inner.remove_agent(&params.name).await?;
    list(api, Nothing {}).await
}

pub(super) async fn test(api: &Api<'_>, params: AgentTestParams) -> Result<AgentTestResponse, ApiError> {
    let inner = api.inner;
    let own = inner.own_agents().await?;
    let home = inner.catalogue.home();
    let runtime = match (params.id, params.agent) {
        (None, Some(draft)) => {
            let before = own.iter().find(|agent| agent.name.eq_ignore_ascii_case(draft.name.trim()));
            inner.runtime_of(&agent::check(draft, before, home.as_deref())?)?
        }
        (Some(id), None) => match Known::of(&id).and_then(Known::agent) {
            Some(known) => {
                let (store, name) = (inner.store.clone(), super::provider::picked_setting(id.as_str()));
                let picked = read(move || store.setting(&name)).await?;
                let runtime = AcpRuntime::new(known);
                runtime.pick(picked.and_then(|path| path.as_str().map(Into::into)));
                runtime
            }
            None => {
                let agent = own.iter().find(|agent| agent.id().is_ok_and(|own| own == id));
                let agent = agent.ok_or_else(|| ApiError::not_found("agent"))?;
                AcpRuntime::new(agent.agent(&inner.secrets, home.as_deref())?)
            }
        },
        _ => return Err(ApiError::new(ErrorCode::BadRequest, "Name an agent, or describe one.")),
    };
    let env = inner.child_environment(&runtime.id()).await;
    Ok(match runtime.tried(&env).await {
        Ok(report) => AgentTestResponse { problem: None, report: Some(view(report)) },
        Err(problem) => AgentTestResponse { problem: Some(way_on(problem, &runtime)), report: None },
    })
}

fn view(report: Report) -> AgentReport {
    AgentReport {
        path: report.path.display().to_string(),
        name: report.name,
        version: report.version,
        models: model_views(&report.models),
        modes: report.modes,
        resumes: report.resumes,
        mcp: report.mcp,
    }
}

/// An agent that was found and does not speak is, as a rule, one that wants other arguments.
fn way_on(problem: Failure, runtime: &AcpRuntime) -> Failure {
    let Program::Search(program) = &runtime.agent().program else { return problem };
    match problem.hint {
        Some(_) => problem,
        None => problem.hint(format!("Does {program} need other arguments to speak ACP?")),
    }
}
