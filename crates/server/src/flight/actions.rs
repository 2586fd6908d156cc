//! What clients can do beside asking for rows and sending them.

use super::connection::Caller;
use super::failure::{not_supported, wrong};
use super::handles::lock;
use super::service::Inner;
use arrow_flight::sql::{
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionEndTransactionRequest,
    Any, Command, EndTransaction, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use bytes::Bytes;
use prost::Message;
use tickstone_client::protocol::{
    BEGIN_SESSION, END_SESSION, FORGET_TABLES, KEEP_SESSION, SessionBegun, StatementTicket,
};
use tickstone_query::Access;
use tonic::Status;

/// Each action and what it does.
const ACTIONS: [(&str, &str); 10] = [
    ("CreatePreparedStatement", "prepares a statement: ActionCreatePreparedStatementRequest"),
    ("ClosePreparedStatement", "forgets a prepared statement: ActionClosePreparedStatementRequest"),
    ("BeginTransaction", "begins a transaction: ActionBeginTransactionRequest"),
    ("EndTransaction", "commits a transaction or rolls it back: ActionEndTransactionRequest"),
    ("CancelFlightInfo", "cancels a statement whose rows are read: CancelFlightInfoRequest"),
    ("CancelQuery", "the same, as it was called before: ActionCancelQueryRequest"),
    (BEGIN_SESSION, "begins a session; its handle stands where a transaction's can"),
    (KEEP_SESSION, "says that the session whose handle is the body is still wanted"),
    (END_SESSION, "ends the session whose handle is the body"),
    (FORGET_TABLES, "forgets the temporary tables of the session whose handle is the body"),
];

/// All actions.
pub(super) fn types() -> impl Iterator<Item = ActionType> {
    ACTIONS
        .iter()
        .map(|(name, about)| ActionType { r#type: (*name).to_string(), description: (*about).to_string() })
}

/// Bytes that hold a message.
///
/// # Errors
/// Where they hold none.
pub(super) fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| wrong(format!("the request cannot be read: {error}")))
}

/// The message that an Any holds.
fn unpacked<M: ProstMessageExt>(bytes: &[u8]) -> Result<M, Status> {
    let any: Any = message(bytes)?;
    match any.is::<M>() {
        true => message(&any.value),
        false => Err(wrong(format!("the request is '{}', not '{}'", any.type_url, M::type_url()))),
    }
}

impl Inner {
    /// Does what an action says; its results.
    ///
    /// # Errors
    /// Where there is no such action, and those of what it does.
    pub(super) async fn act(&self, action: &Action, caller: &Caller) -> Result<Vec<Bytes>, Status> {
        let (access, body) = (&caller.access, action.body.as_ref());
        let packed = |any: Any| vec![Bytes::from(any.encode_to_vec())];
        Ok(match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let request: ActionCreatePreparedStatementRequest = unpacked(body)?;
                packed(self.prepare_statement(access, request).await?.as_any())
            }
            "ClosePreparedStatement" => {
                let request: ActionClosePreparedStatementRequest = unpacked(body)?;
                self.forget_prepared(access, &request.prepared_statement_handle);
                Vec::new()
            }
            "BeginTransaction" => {
                let transaction_id = self.begin_transaction(caller).await?;
                packed(ActionBeginTransactionResult { transaction_id }.as_any())
            }
            "EndTransaction" => {
                let request: ActionEndTransactionRequest = unpacked(body)?;
                let commit = match request.action() {
                    EndTransaction::Commit => true,
                    EndTransaction::Rollback => false,
                    EndTransaction::Unspecified => {
                        return Err(wrong("a transaction ends by commit or rollback"));
                    }
                };
                self.end_transaction(&request.transaction_id, commit, caller).await?;
                Vec::new()
            }
            "CancelFlightInfo" => {
                let request: CancelFlightInfoRequest = message(body)?;
                let cancelled = self.cancel(access, &request.info.unwrap_or_default());
                vec![CancelFlightInfoResult::new(cancelled).encode_to_vec().into()]
            }
            "CancelQuery" => {
                let request: ActionCancelQueryRequest = unpacked(body)?;
                let result = self.cancel(access, &message(&request.info)?) as i32;
                packed(ActionCancelQueryResult { result }.as_any())
            }
            BEGIN_SESSION => {
                let idle = self.shared.settings.time("flight_idle_timeout").unwrap_or_default();
                let idle_millis = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
                let begun = SessionBegun { handle: self.begin_session(access)?, idle_millis };
                vec![begun.encode_to_vec().into()]
            }
            KEEP_SESSION => self.session(access, body).map(|_| Vec::new())?,
            END_SESSION => {
                self.end_session(access, body);
                Vec::new()
            }
            FORGET_TABLES => {
                self.forget_tables(access, body).await?;
                Vec::new()
            }
            other => return Err(not_supported(&format!("the action '{other}'"))),
        })
    }

    /// Cancels the user's statement of a ticket, where its rows are read.
    fn cancel(&self, access: &Access, info: &FlightInfo) -> CancelStatus {
        let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
        let mut cancelled = false;
        for ticket in tickets {
            let number = statement_ticket(&ticket.ticket).map_or(0, |ticket| ticket.number);
            cancelled |= lock(&self.running)
                .get(&(access.owner(), number))
                .is_some_and(|cancel| cancel.send(true).is_ok());
        }
        if cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable }
    }
}

/// The statement that a ticket of ours asks for.
pub(super) fn statement_ticket(ticket: &[u8]) -> Option<StatementTicket> {
    let any = Any::decode(ticket).ok()?;
    match Command::try_from(any).ok()? {
        Command::TicketStatementQuery(TicketStatementQuery { statement_handle }) => {
            StatementTicket::decode(statement_handle).ok()
        }
        _ => None,
    }
}
