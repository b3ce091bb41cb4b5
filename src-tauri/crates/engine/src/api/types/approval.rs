//! Approvals.

use changeover_core::{
    approval::ApprovalDecision,
    id::{ApprovalId, ThreadId},
    turn::record::Approval,
};
use serde::{Deserialize, Serialize};
use ts_rs::TS;

wire! {
    /// Answers an approval.
    pub struct ApprovalAnswerParams {
        /// In which thread.
        thread_id: ThreadId,
        /// Which.
        approval_id: ApprovalId,
        /// The answer.
        decision: ApprovalDecision,
    }
    /// An approval that waits, anywhere.
    pub struct ApprovalEntry {
        /// In which thread.
        thread_id: ThreadId,
        /// The approval.
        approval: Approval,
    }
    /// All open approvals.
    pub struct ApprovalListResponse {
        /// Oldest first.
        approvals: Vec<ApprovalEntry>,
    }
}
