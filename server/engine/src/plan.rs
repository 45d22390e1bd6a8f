//! Planning: from what a client selects to the first event of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use flowdrive_protocol::ids::{InputName, RunId, WorkflowId};
use flowdrive_protocol::method::WorkflowRef;
use flowdrive_protocol::time::Timestamp;

use crate::EngineError;
use crate::model::journal::{RunPlanned, STATE_VERSION};
use crate::store::canonical::sha256_hex;
use crate::workflow::{self, LoadedWorkflow};

/// Plans a run of the workflow. Reads the workflow's file; writes nothing.
///
/// # Errors
/// `workflow-invalid`; invalid params for inputs that do not fit.
pub(crate) fn plan(
    workspace: &Path,
    reference: WorkflowRef,
    given: &BTreeMap<InputName, serde_json::Value>,
    run_id: Option<RunId>,
) -> Result<RunPlanned, EngineError> {
    of(workflow::load(reference, workspace)?, workspace, given, run_id)
}

/// Plans a run of a workflow that is loaded already.
///
/// # Errors
/// Invalid params for inputs that do not fit.
pub(crate) fn of(
    loaded: LoadedWorkflow,
    workspace: &Path,
    given: &BTreeMap<InputName, serde_json::Value>,
    run_id: Option<RunId>,
) -> Result<RunPlanned, EngineError> {
    let inputs = workflow::plan_inputs(&loaded.workflow, given, workspace)?;
    let run_id = match run_id {
        Some(id) => id,
        None => new_run_id(&loaded.workflow.id)?,
    };
    Ok(RunPlanned {
        schema_version: STATE_VERSION,
        run_id,
        workflow: loaded.workflow,
        workflow_source: loaded.source,
        inputs,
        workspace: workspace.to_string_lossy().into_owned(),
    })
}

/// `<workflow>-<time>-<6 hex digits>`.
pub(crate) fn new_run_id(workflow: &WorkflowId) -> Result<RunId, EngineError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = jiff::Timestamp::now();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let seed = format!("{workflow}:{}:{}:{number}", now.as_nanosecond(), std::process::id());
    let digest = sha256_hex(seed);
    let hex = digest.trim_start_matches("sha256:").chars().take(6).collect::<String>();
    let name: String = workflow.as_str().chars().take(120).collect();
    RunId::new(format!("{name}-{}-{hex}", Timestamp::now().compact()))
        .map_err(|fault| EngineError::internal(fault.to_string()))
}
