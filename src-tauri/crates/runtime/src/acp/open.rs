//! From a program to an open session: handshake, new or loaded session, model, mode.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use agent_client_protocol::{
    schema::ProtocolVersion,
    v1::schema::{
        AuthMethod, ClientCapabilities, HttpHeader, Implementation, InitializeRequest, InitializeResponse, McpServer,
        McpServerHttp, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOptions,
    },
};
use changeover_core::{
    failure::{Failure, FailureKind},
    provider::ApprovalMode,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    failure, lacks,
    wire::{CallError, Peer},
};
use crate::{
    process::Process,
    session::{McpAccess, ModelInfo, SessionSpec},
};

/// How long the handshake may take; a cold OpenCode on a busy machine needs its time.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// How long a session may take to open: a long history is replayed first.
const SESSION_LIMIT: Duration = Duration::from_secs(120);

/// An agent that has shaken hands.
pub(super) struct Greeted {
    pub peer: Peer,
    pub process: Arc<Process>,
    pub hello: InitializeResponse,
    /// How to log in, where we know better than the agent says.
    login: Option<&'static str>,
}

/// An open session, as the agent describes it.
pub(super) struct Described {
    pub session_id: String,
    pub model: Option<String>,
    /// Edits are to go without asking and the agent has no mode for it: we answer.
    pub edits_are_ours: bool,
    /// Things that could not be had and end nothing.
    pub warnings: Vec<String>,
}

impl Greeted {
    /// `initialize`.
    pub async fn new(peer: Peer, process: Arc<Process>, login: Option<&'static str>) -> Result<Self, Failure> {
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::default())
            .client_info(Implementation::new("changeover", env!("CARGO_PKG_VERSION")));
        let answer = ask(&peer, &process, "initialize", &request, HANDSHAKE_LIMIT, None).await?;
        let hello: InitializeResponse = serde_json::from_value(answer)
            .map_err(|error| broken(&format!("the agent's greeting makes no sense: {error}")))?;
        if hello.protocol_version != ProtocolVersion::V1 {
            return Err(broken("the agent speaks another version of the Agent Client Protocol than 1"));
        }
        Ok(Self { peer, process, hello, login })
    }

    /// A session of no use but for what it offers.
    pub async fn offers(&self, folder: &Path) -> Result<Offers, Failure> {
        let answer = self.ask("session/new", &json!({"cwd": folder, "mcpServers": []})).await?;
        Ok(Offers::read(&answer))
    }

    /// How to log in, as far as known in the agent's own words.
    pub fn login_hint(&self) -> Option<String> {
        if let Some(login) = self.login {
            return Some(login.to_owned());
        }
        let ways: Vec<&str> = self
            .hello
            .auth_methods
            .iter()
            .filter_map(|way| match way {
                AuthMethod::Agent(way) => Some(way.name.as_str()),
                _ => None,
            })
            .collect();
        (!ways.is_empty()).then(|| format!("Log in with the agent's own command: {}.", ways.join(", ")))
    }

    /// Name and version as the agent says them.
    pub fn version(&self) -> Option<String> {
        self.hello.agent_info.as_ref().map(|info| info.version.clone())
    }

    async fn ask(&self, method: &str, params: &impl Serialize) -> Result<Value, Failure> {
        ask(&self.peer, &self.process, method, params, SESSION_LIMIT, self.login_hint().as_deref()).await
    }

    /// Opens the session that `spec` wants, with its model and mode. `born`: when a session was made, if by this process.
    pub async fn session(&self, spec: &SessionSpec, born: impl Fn(&str) -> Option<u64>) -> Result<Described, Failure> {
        let mut warnings = Vec::new();
        let servers = self.servers(spec.mcp.as_ref(), &mut warnings);
        let mut params = json!({"cwd": spec.folder, "mcpServers": servers});
        let (session_id, answer) = match &spec.resume {
            None => {
                let answer = self.ask("session/new", &params).await?;
                let id = answer.get("sessionId").and_then(Value::as_str).map(str::to_owned);
                (id.ok_or_else(|| broken("a new session has no id"))?, answer)
            }
            Some(resume) if resume.fork => {
                return Err(Failure::new(FailureKind::Rejected, "this agent cannot copy a session"));
            }
            Some(resume) if resume.rewind => {
                let message = "this agent cannot bring a session back to an earlier place";
                return Err(Failure::new(FailureKind::Rejected, message));
            }
            Some(resume) => {
                let method = self.way_back(&resume.session_id, born)?;
                params["sessionId"] = Value::String(resume.session_id.clone());
                let answer = self.ask(method, &params).await.map_err(|failure| gone(failure, &resume.session_id))?;
                (resume.session_id.clone(), answer)
            }
        };
        let offers = Offers::read(&answer);
        let model = self.choose_model(&session_id, &offers, spec).await?;
        if let Some(effort) = &spec.effort {
            self.choose(&session_id, offers.efforts.as_ref(), effort).await?;
        }
        let edits_are_ours = self.choose_mode(&session_id, &offers, spec.mode).await?;
        Ok(Described { session_id, model, edits_are_ours, warnings })
    }

    /// How an earlier session is opened. Resume replays nothing; load does, and its replay is read over.
    fn way_back(&self, session_id: &str, born: impl Fn(&str) -> Option<u64>) -> Result<&'static str, Failure> {
        let can = &self.hello.agent_capabilities;
        if can.session_capabilities.resume.is_some() {
            return Ok("session/resume");
        }
        if !can.load_session {
            return Err(Failure::new(FailureKind::SessionGone, "this agent cannot open earlier sessions"));
        }
        // Gemini names a session's file by the minute: loading it within that minute empties it (seen with 0.61).
        let gemini = self.hello.agent_info.as_ref().is_some_and(|info| info.name.contains("gemini"));
        if gemini && born(session_id) == Some(minute()) {
            let message = "Gemini loses a session that is opened again within the minute it was made";
            return Err(Failure::new(FailureKind::SessionGone, message));
        }
        Ok("session/load")
    }

    fn servers(&self, mcp: Option<&McpAccess>, warnings: &mut Vec<String>) -> Vec<McpServer> {
        let Some(mcp) = mcp else { return Vec::new() };
        if !lacks::takes_our_server(&self.hello) {
            warnings.push("This agent gets no tools of ours: it cannot look into the conversation.".into());
            return Vec::new();
        }
        let header = HttpHeader::new("Authorization", format!("Bearer {}", mcp.token));
        vec![McpServer::Http(McpServerHttp::new("changeover", &mcp.url).headers(vec![header]))]
    }

    async fn choose_model(&self, id: &str, offers: &Offers, spec: &SessionSpec) -> Result<Option<String>, Failure> {
        let current = offers.models.iter().find(|model| model.default).map(|model| model.id.clone());
        let Some(wanted) = &spec.model else { return Ok(current) };
        if Some(wanted) == current.as_ref() {
            return Ok(current);
        }
        if !offers.models.iter().any(|model| model.id == *wanted) {
            let hint = offers.models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
            let failure = Failure::new(FailureKind::BadModel, format!("the agent does not offer the model {wanted}"));
            return Err(if hint.is_empty() { failure } else { failure.hint(format!("It offers: {hint}.")) });
        }
        match &offers.model_option {
            Some(option) => self.set_option(id, option, wanted).await?,
            None => {
                self.ask("session/set_model", &json!({"sessionId": id, "modelId": wanted})).await?;
            }
        }
        Ok(Some(wanted.clone()))
    }

    async fn choose(&self, id: &str, offer: Option<&(String, Vec<String>)>, wanted: &str) -> Result<(), Failure> {
        match offer {
            Some((option, values)) if values.iter().any(|value| value == wanted) => {
                self.set_option(id, option, wanted).await
            }
            _ => Err(Failure::new(FailureKind::BadModel, format!("the agent does not offer the effort {wanted}"))),
        }
    }

    async fn set_option(&self, id: &str, option: &str, value: &str) -> Result<(), Failure> {
        let params = json!({"sessionId": id, "configId": option, "value": value});
        self.ask("session/set_config_option", &params).await.map(drop)
    }

    /// R4's modes by the names agents give them. Never one that stops asking altogether: "all" is answered by the app.
    async fn choose_mode(&self, id: &str, offers: &Offers, mode: ApprovalMode) -> Result<bool, Failure> {
        let names: &[&str] = match mode {
            ApprovalMode::Ask | ApprovalMode::All => &["default", "ask", "manual", "build"],
            ApprovalMode::Edits => &["acceptEdits", "autoEdit", "auto_edit"],
        };
        let Some((current, have)) = &offers.modes else { return Ok(mode == ApprovalMode::Edits) };
        match names.iter().find(|name| have.iter().any(|have| have == *name)) {
            Some(name) if name == current => Ok(false),
            Some(name) => {
                self.ask("session/set_mode", &json!({"sessionId": id, "modeId": name})).await?;
                Ok(false)
            }
            None => Ok(mode == ApprovalMode::Edits),
        }
    }
}

async fn ask(
    peer: &Peer,
    process: &Process,
    method: &str,
    params: &impl Serialize,
    limit: Duration,
    login: Option<&str>,
) -> Result<Value, Failure> {
    match timeout(limit, peer.call(method, params)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(CallError::Refused(error))) => Err(failure::failure(&error, login)),
        Ok(Err(CallError::Closed)) => {
            let mut failure = process.exit_failure().await;
            // A launcher's "no such file": Node is missing, for example.
            if process.exit().and_then(|exit| exit.code) == Some(127) {
                failure.kind = FailureKind::NotInstalled;
            }
            Err(failure)
        }
        Err(_) => {
            let message = format!("the agent did not answer {method} in {} s", limit.as_secs());
            Err(Failure::new(FailureKind::Unavailable, message))
        }
    }
}

/// What `session/load` says about an id it does not know is T5's; everything else is what it is.
fn gone(mut failure: Failure, id: &str) -> Failure {
    if failure.kind == FailureKind::SessionGone {
        failure.message = format!("the agent does not know the session {id} any more: {}", failure.message);
    }
    failure
}

fn broken(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, what)
}

/// The clock's minute, counted since 1970.
pub(super) fn minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() / 60)
}

/// What a session has to choose from.
#[derive(Debug, Default)]
pub(super) struct Offers {
    pub models: Vec<ModelInfo>,
    /// The configuration option that sets the model; absent: `session/set_model`.
    model_option: Option<String>,
    /// The configuration option that sets the effort, and its values.
    efforts: Option<(String, Vec<String>)>,
    /// The mode it is in, and all it has.
    modes: Option<(String, Vec<String>)>,
}

impl Offers {
    /// From the answer to `session/new`, `load` or `resume`: the options of today's protocol, else Gemini's `models`.
    pub fn read(answer: &Value) -> Self {
        let mut offers = Self::default();
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(models) = answer.get("models") {
            let current = text(models, "currentModelId");
            let list = models.get("availableModels").and_then(Value::as_array).into_iter().flatten();
            offers.models = list
                .filter_map(|model| {
                    let id = text(model, "modelId")?;
                    let name = text(model, "name").unwrap_or_else(|| id.clone());
                    Some(ModelInfo {
                        default: current.as_deref() == Some(&id),
                        id,
                        name,
                        window: None,
                        efforts: vec![],
                    })
                })
                .collect();
        }
        if let Some(modes) = answer.get("modes")
            && let Some(current) = text(modes, "currentModeId")
        {
            let list = modes.get("availableModes").and_then(Value::as_array).into_iter().flatten();
            offers.modes = Some((current, list.filter_map(|mode| text(mode, "id")).collect()));
        }
        let options = answer.get("configOptions").and_then(Value::as_array).into_iter().flatten();
        for option in options.filter_map(|option| serde_json::from_value(option.clone()).ok()) {
            offers.option(option);
        }
        let efforts = offers.efforts.as_ref().map(|(_, values)| values.clone()).unwrap_or_default();
        for model in &mut offers.models {
            model.efforts.clone_from(&efforts);
        }
        offers
    }

    /// Its modes' names.
    pub fn mode_names(&self) -> Vec<String> {
        self.modes.as_ref().map(|(_, names)| names.clone()).unwrap_or_default()
    }

    fn option(&mut self, option: SessionConfigOption) {
        let id = option.id.to_string();
        let SessionConfigKind::Select(select) = option.kind else { return };
        let current = select.current_value.to_string();
        let values = match select.options {
            SessionConfigSelectOptions::Ungrouped(values) => values,
            SessionConfigSelectOptions::Grouped(groups) => groups.into_iter().flat_map(|group| group.options).collect(),
            _ => return,
        };
        let ids = || values.iter().map(|value| value.value.to_string()).collect::<Vec<_>>();
        match option.category {
            Some(SessionConfigOptionCategory::ThoughtLevel) => self.efforts = Some((id, ids())),
            Some(SessionConfigOptionCategory::Mode) if self.modes.is_none() => self.modes = Some((current, ids())),
            Some(SessionConfigOptionCategory::Model) => {
                self.models = values
                    .iter()
                    .map(|value| ModelInfo {
                        id: value.value.to_string(),
                        name: value.name.clone(),
                        window: value.meta.as_ref().and_then(|meta| meta.get("contextWindow")?.as_u64()),
                        efforts: Vec::new(),
                        default: value.value.to_string() == current,
                    })
                    .collect();
                self.model_option = Some(id);
            }
            _ => {}
        }
    }
}

/// Whether a folder can be a session's; agents answer a missing one in many ways, so it is asked before (R9).
pub(super) fn check_folder(folder: &Path) -> Result<(), Failure> {
    if folder.is_absolute() && folder.is_dir() {
        return Ok(());
    }
    Err(Failure::new(FailureKind::FolderGone, format!("The folder {} does not exist", folder.display())))
}
