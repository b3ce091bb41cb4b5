//! The runtimes on offer, and among them the agents that the user has added (R1): kept as one setting, their secrets apart.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use changeover_core::{event::Keeps, failure::Failure, provider::ProviderId};
use changeover_runtime::{
    acp::{AcpAgent, AcpRuntime, Known, Program},
    detect,
    session::{AgentRuntime, Environment},
};
use changeover_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    api::{
        error::{ApiError, ErrorCode},
        types::{AgentDraft, AgentVariable},
    },
    engine::{Inner, read},
    secret::Secrets,
};

/// The setting that holds the user's own agents.
const SETTING: &str = "agents";
/// How many there may be.
const MOST: usize = 32;

/// The runtimes on offer. Those that the app brings never change; the user's own come and go.
pub(crate) struct Runtimes {
    /// In the picker's order.
    fixed: Vec<Arc<dyn AgentRuntime>>,
    own: RwLock<BTreeMap<ProviderId, Arc<dyn AgentRuntime>>>,
}

impl Runtimes {
    pub(crate) fn new(fixed: Vec<Arc<dyn AgentRuntime>>) -> Self {
        Self { fixed, own: RwLock::default() }
    }

    pub(crate) fn get(&self, id: &ProviderId) -> Option<Arc<dyn AgentRuntime>> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        own.get(id).or_else(|| self.fixed.iter().find(|runtime| runtime.id() == *id)).cloned()
    }

    /// All, in the picker's order: the user's own before the practice agent, which is the last resort.
    pub(crate) fn all(&self) -> Vec<(ProviderId, Arc<dyn AgentRuntime>)> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let (last, first): (Vec<_>, Vec<_>) = self.fixed.iter().partition(|r| r.id() == ProviderId::practice());
        let all = first.into_iter().chain(own.values()).chain(last);
        all.map(|runtime| (runtime.id(), Arc::clone(runtime))).collect()
    }

    pub(crate) fn order(&self) -> Vec<ProviderId> {
        self.all().into_iter().map(|(id, _)| id).collect()
    }

    fn put(&self, runtime: Arc<dyn AgentRuntime>) {
        self.own.write().unwrap_or_else(PoisonError::into_inner).insert(runtime.id(), runtime);
    }

    fn remove(&self, id: &ProviderId) {
        self.own.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// An agent of the user's, as it is stored: without the values of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variables with their values.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Variables whose values are kept elsewhere.
    #[serde(default)]
    pub(crate) secrets: Vec<String>,
}

/// Where a secret of an agent is kept.
fn place(agent: &str, variable: &str) -> String {
    format!("acp:{agent}/{variable}")
}

impl Agent {
    pub(crate) fn id(&self) -> Result<ProviderId, ApiError> {
        format!("acp:{}", self.name).parse().map_err(|_| bad(NAME_RULE))
    }

    /// How it is started, with the values of its secrets as far as they are known.
    pub(crate) fn agent(&self, secrets: &Secrets, home: Option<&str>) -> Result<AcpAgent, ApiError> {
        let mut env: Environment = self.env.clone();
        for name in &self.secrets {
            if let Some(value) = secrets.get(&place(&self.name, name)) {
                env.insert(name.clone(), value);
            }
        }
        Ok(AcpAgent {
            id: self.id()?,
            program: Program::Search(at_home(&self.command, home)),
            args: self.args.clone(),
            env,
            keeps: Keeps::UNKNOWN,
        })
    }

    /// Its variables as people may see them.
    pub(crate) fn variables(&self, secrets: &Secrets) -> Vec<AgentVariable> {
        let plain = self.env.iter().map(|(name, value)| AgentVariable {
            name: name.clone(),
            value: Some(value.clone()),
            secret: false,
            missing: false,
        });
        let secret = self.secrets.iter().map(|name| AgentVariable {
            name: name.clone(),
            value: None,
            secret: true,
            missing: secrets.get(&place(&self.name, name)).is_none(),
        });
        plain.chain(secret).collect()
    }
}

/// `~/…` as a path.
fn at_home(command: &str, home: Option<&str>) -> String {
    match (command.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Path::new(home).join(below).display().to_string(),
        _ => command.to_owned(),
    }
}

fn bad(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

const NAME_RULE: &str =
    "An agent's name has 1 to 32 letters, digits, dots, dashes or underscores and begins with a letter or a digit.";

/// Whether a variable of this name holds a secret, as a rule.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"].iter().any(|word| name.contains(word))
}

/// A described agent, checked; and the values of its secrets, which are stored apart.
pub(crate) struct Checked {
    pub(crate) agent: Agent,
    secrets: BTreeMap<String, String>,
}

/// Checks what a user typed. `before`: what it changes.
pub(crate) fn check(draft: AgentDraft, before: Option<&Agent>, home: Option<&str>) -> Result<Checked, ApiError> {
    let name = draft.name.trim().to_owned();
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let begins = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    if !begins || name.len() > 32 || !name.bytes().all(good) {
        return Err(bad(NAME_RULE).hint("For example `my-agent`."));
    }
    if Known::named(&name.to_ascii_lowercase()).is_some() {
        return Err(bad(format!("{name} is the name of an agent that Changeover looks for by itself."))
            .hint("Pick its program by hand, or give yours another name."));
    }
    let command = draft.command.trim().to_owned();
    if command.is_empty() || command.len() > 4096 || command.contains(['\0', '\n']) {
        return Err(bad("Give the agent's program: a name on the PATH, or an absolute path."));
    }
    let path = PathBuf::from(at_home(&command, home));
    if path.components().count() > 1 && !path.is_absolute() {
        return Err(bad(format!("{command} is neither a name on the PATH nor an absolute path.")));
    }
    if draft.args.len() > 64 || draft.args.iter().any(|arg| arg.len() > 4096 || arg.contains('\0')) {
        return Err(bad("An agent has at most 64 arguments of at most 4096 bytes."));
    }
    let named = |arg: &String| arg.split_once('=').is_some_and(|(name, value)| !value.is_empty() && looks_secret(name));
    if let Some(arg) = draft.args.iter().find(|arg| named(arg)) {
        let name = arg.split('=').next().unwrap_or_default();
        return Err(bad(format!(
            "The argument {name}=… looks like a secret, and everybody on this machine can read arguments."
        ))
        .hint("Give it as a variable."));
    }
    let mut agent = Agent { name, command, args: draft.args, env: BTreeMap::new(), secrets: Vec::new() };
    let mut secrets = BTreeMap::new();
    if draft.env.len() > 64 {
        return Err(bad("An agent has at most 64 variables."));
    }
    for variable in draft.env {
        let name = variable.name.trim().to_owned();
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty()
            || name.len() > 128
            || !name.bytes().all(good)
            || name.bytes().next().is_some_and(|b| b.is_ascii_digit())
        {
            return Err(bad(format!("`{name}` is no name for a variable: letters, digits and underscores.")));
        }
        if name.starts_with("CHANGEOVER_") {
            return Err(bad(format!("{name} belongs to Changeover.")));
        }
        if agent.env.contains_key(&name) || agent.secrets.contains(&name) {
            return Err(bad(format!("{name} is there twice.")));
        }
        if variable.value.as_ref().is_some_and(|value| value.len() > 32 * 1024 || value.contains('\0')) {
            return Err(bad(format!("The value of {name} is too long.")));
        }
        let was_secret = before.is_some_and(|before| before.secrets.contains(&name));
        let secret = variable.secret.unwrap_or_else(|| was_secret || looks_secret(&name));
        let was = before.and_then(|before| before.env.get(&name)).cloned();
        match (secret, variable.value.or(was)) {
            (true, Some(value)) => {
                secrets.insert(name.clone(), value);
                agent.secrets.push(name);
            }
            (true, None) if was_secret => agent.secrets.push(name),
            (false, Some(value)) => {
                agent.env.insert(name, value);
            }
            (_, None) => return Err(bad(format!("{name} has no value."))),
        }
    }
    Ok(Checked { agent, secrets })
}

/// The agent's program can be found now; else what to do.
pub(crate) fn check_program(agent: &Agent, env: &Environment) -> Result<(), ApiError> {
    let mut env = env.clone();
    env.extend(agent.env.clone());
    let command = at_home(&agent.command, env.get("HOME").map(String::as_str));
    match detect::find(&command, None, &env) {
        Ok(_) => Ok(()),
        Err(Failure { message, .. }) => {
            let first = agent.command.split_whitespace().next().unwrap_or_default();
            let apart = first != agent.command && detect::find(first, None, &env).is_ok();
            let hint = match apart {
                true => format!("The program is {first}: give the rest as its arguments."),
                false => "Check the spelling, install it first, or give its absolute path.".to_owned(),
            };
            Err(bad(format!("{message}.")).hint(hint))
        }
    }
}

impl Inner {
    /// The user's own agents as stored. One that cannot be read hides no other.
    pub(crate) async fn own_agents(&self) -> Result<Vec<Agent>, StoreError> {
        let store = self.store.clone();
        let value = read(move || store.setting(SETTING)).await?;
        let list = value.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        let read = |value| match serde_json::from_value::<Agent>(value) {
            Ok(agent) if agent.id().is_ok() => Some(agent),
            _ => {
                tracing::warn!("an agent in the settings could not be read");
                None
            }
        };
        Ok(list.into_iter().take(MOST).filter_map(read).collect())
    }

    async fn store_agents(&self, agents: &[Agent]) -> Result<(), ApiError> {
        let value =
            serde_json::to_value(agents).map_err(|error| ApiError::new(ErrorCode::Internal, error.to_string()))?;
        Ok(self.store.put_setting(SETTING.to_owned(), value).await?)
    }

    /// Makes the runtimes of the user's own agents; once, at the start.
    pub(crate) async fn load_agents(&self) -> Result<(), StoreError> {
        let home = self.catalogue.home();
        for agent in self.own_agents().await? {
            if let Ok(agent) = agent.agent(&self.secrets, home.as_deref()) {
                self.runtimes.put(Arc::new(AcpRuntime::new(agent)));
            }
        }
        self.catalogue.set_order(self.runtimes.order());
        Ok(())
    }

    /// A runtime for an agent that need not be stored; secrets that were not given again are the stored one's.
    pub(crate) fn runtime_of(&self, checked: &Checked) -> Result<AcpRuntime, ApiError> {
        let mut agent = checked.agent.agent(&self.secrets, self.catalogue.home().as_deref())?;
        agent.env.extend(checked.secrets.clone());
        Ok(AcpRuntime::new(agent))
    }

    /// Adds an agent, or changes it.
    pub(crate) async fn set_agent(&self, draft: AgentDraft, change: bool) -> Result<(), ApiError> {
        let _one = self.agents.lock().await;
        let env = self.catalogue.environment().await;
        let mut agents = self.own_agents().await?;
        let at = agents.iter().position(|agent| agent.name.eq_ignore_ascii_case(draft.name.trim()));
        let before = at.and_then(|at| agents.get(at));
        match before {
            Some(before) if !change => {
                return Err(bad(format!("There is an agent {} already.", before.name))
                    .hint("Change that one, or choose another name."));
            }
            None if change => return Err(ApiError::not_found("agent")),
            None if agents.len() >= MOST => return Err(bad(format!("There are {MOST} agents already."))),
            _ => {}
        }
        let mut checked = check(draft, before, env.get("HOME").map(String::as_str))?;
        if let Some(before) = before {
            checked.agent.name.clone_from(&before.name);
        }
        check_program(&checked.agent, &env)?;
        let id = checked.agent.id()?;
        let removed: Vec<String> = before.map(|before| before.secrets.clone()).unwrap_or_default();
        self.retire_or_refuse(&id).await?;
        for name in removed.iter().filter(|name| !checked.agent.secrets.contains(name)) {
            self.secrets.remove(&place(&checked.agent.name, name));
        }
        for (name, value) in &checked.secrets {
            self.secrets.put(&place(&checked.agent.name, name), value.clone());
        }
        match at.and_then(|at| agents.get_mut(at)) {
            Some(slot) => *slot = checked.agent.clone(),
            None => agents.push(checked.agent.clone()),
        }
        self.store_agents(&agents).await?;
        let runtime: Arc<dyn AgentRuntime> = Arc::new(self.runtime_of(&checked)?);
        self.runtimes.put(Arc::clone(&runtime));
        self.catalogue.forget(&id);
        self.catalogue.set_order(self.runtimes.order());
        self.look_for(&id, &*runtime).await;
        Ok(())
    }

    /// Removes one of the user's own agents.
    pub(crate) async fn remove_agent(&self, name: &str) -> Result<(), ApiError> {
        let _one = self.agents.lock().await;
        let mut agents = self.own_agents().await?;
        let Some(at) = agents.iter().position(|agent| agent.name == name) else {
            return Err(ApiError::not_found("agent"));
        };
        let agent = agents.remove(at);
        let id = agent.id()?;
        self.retire_or_refuse(&id).await?;
        self.store_agents(&agents).await?;
        for name in &agent.secrets {
            self.secrets.remove(&place(&agent.name, name));
        }
        self.runtimes.remove(&id);
        self.catalogue.set_order(self.runtimes.order());
        self.announce_providers();
        Ok(())
    }

    async fn retire_or_refuse(&self, id: &ProviderId) -> Result<(), ApiError> {
        if self.retire(id).await {
            return Ok(());
        }
        let message = format!("{} is answering in a thread just now.", id.display_name());
        Err(ApiError::new(ErrorCode::Refused, message).hint("Stop it there, or wait until it is done."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::types::AgentVariableDraft;

    fn draft(name: &str, command: &str) -> AgentDraft {
        AgentDraft { name: name.into(), command: command.into(), args: Vec::new(), env: Vec::new() }
    }

    fn variable(name: &str, value: Option<&str>, secret: Option<bool>) -> AgentVariableDraft {
        AgentVariableDraft { name: name.into(), value: value.map(str::to_owned), secret }
    }

    #[test]
    fn what_a_user_types_is_checked_and_the_error_says_what_is_wrong() {
        let says = |draft| match check(draft, None, None) {
            Ok(_) => String::new(),
            Err(error) => format!("{} {}", error.message, error.hint.unwrap_or_default()),
        };
        assert_eq!(says(draft("mine.2", "agent")), "");
        for name in ["", "-x", "a b", "ü", "acp:x", &"x".repeat(33)] {
            assert!(says(draft(name, "agent")).starts_with(NAME_RULE), "{name}");
        }
        assert!(says(draft("Gemini", "agent")).contains("looks for by itself"));
        assert!(says(draft("x", " ")).contains("Give the agent's program"));
        assert!(says(draft("x", "bin/agent")).contains("neither a name on the PATH nor an absolute path"));
        let args = |args: &[&str]| AgentDraft { args: args.iter().map(|a| (*a).into()).collect(), ..draft("x", "y") };
        assert!(says(args(&["--api-key=sk-1"])).contains("--api-key=… looks like a secret"));
        assert_eq!(says(args(&["--acp", "--max=1"])), "");
        let env = |env: &[AgentVariableDraft]| AgentDraft { env: env.to_vec(), ..draft("x", "y") };
        assert!(says(env(&[variable("1X", Some("v"), None)])).contains("no name for a variable"));
        assert!(says(env(&[variable("CHANGEOVER_MARK", Some("v"), None)])).contains("belongs to Changeover"));
        assert!(says(env(&[variable("A", None, None)])).contains("A has no value"));
        assert!(says(env(&[variable("A", Some("1"), None), variable("A", Some("2"), None)])).contains("twice"));
    }

    #[test]
    fn secrets_are_apart_never_shown_and_kept_when_not_given_again() {
        let secrets = Secrets::default();
        let first = AgentDraft {
            env: vec![variable("MY_API_KEY", Some("sk-secret"), None), variable("MODE", Some("fast"), None)],
            ..draft("x", "y")
        };
        let checked = check(first, None, None).unwrap();
        let stored = serde_json::to_string(&checked.agent).unwrap();
        assert!(!stored.contains("sk-secret") && stored.contains("fast"), "{stored}");
        assert_eq!(checked.secrets, BTreeMap::from([("MY_API_KEY".into(), "sk-secret".into())]));
        assert!(checked.agent.variables(&secrets).iter().any(|v| v.secret && v.missing && v.value.is_none()));
        secrets.put(&place("x", "MY_API_KEY"), "sk-secret".into());
        assert!(checked.agent.variables(&secrets).iter().all(|v| !v.missing));
        let again = AgentDraft {
            env: vec![variable("MY_API_KEY", None, None), variable("MODE", None, None)],
            ..draft("x", "y")
        };
        let changed = check(again, Some(&checked.agent), None).unwrap();
        assert_eq!(changed.agent, checked.agent);
        let started = changed.agent.agent(&secrets, None).unwrap();
        assert_eq!(started.env.get("MY_API_KEY").map(String::as_str), Some("sk-secret"));
        assert!(!format!("{started:?}").contains("sk-secret"));
    }

    #[test]
    fn a_program_that_is_not_there_says_so_and_arguments_in_it_too() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("agent");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let env = Environment::from([("PATH".into(), folder.path().display().to_string())]);
        let try_it = |command: &str| {
            let checked = check(draft("x", command), None, None).unwrap();
            check_program(&checked.agent, &env).map_err(|error| error.hint.unwrap_or_default())
        };
        assert_eq!(try_it("agent"), Ok(()));
        assert_eq!(try_it(&program.display().to_string()), Ok(()));
        assert_eq!(try_it("agent --acp"), Err("The program is agent: give the rest as its arguments.".into()));
        assert!(try_it("other").unwrap_err().contains("Check the spelling"));
        assert!(try_it("/nowhere/agent").unwrap_err().contains("Check the spelling"));
    }
}
