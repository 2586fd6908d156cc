//! The fields of `s.*` and `(expression).*`, before names are resolved: those of a plan with a column in its place.

use super::Session;
use crate::dialect::{self, Statement};
use crate::error::{QueryError, Result, type_name};
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::parser::Statement as PlannerStatement;
use sqlparser::ast;

impl Session {
    /// Writes out the fields of each `.*` of a struct.
    ///
    /// # Errors
    /// Where an expression is none. A name that is no column is left to planning, which says so.
    pub(super) async fn find_fields(&mut self, statement: &mut Statement) -> Result<()> {
        let mut passed = 0;
        while let Some(query) = dialect::fields_wanted(statement, passed)? {
            let mut finding = Statement::Query(Box::new(ast::Statement::Query(query)));
            self.resolve(&mut finding)?;
            let Statement::Query(finding) = finding else { return Ok(()) };
            let planned = self.state().statement_to_plan(PlannerStatement::Statement(finding)).await;
            let Ok(planned) = planned else {
                passed += 1;
                continue;
            };
            let mut fields = Vec::new();
            for field in planned.schema().fields() {
                let Some(item) = dialect::item_of(field.name()) else { continue };
                fields.resize(fields.len().max(item + 1), None);
                fields[item] = match field.data_type() {
                    DataType::Struct(of) => Some(of.iter().map(|of| of.name().clone()).collect()),
                    other => {
                        let what =
                            format!(".* is of a table or of a STRUCT, and this is {}", type_name(other));
                        return Err(QueryError::request(what).hint(
                            "t.* gives the columns of a table of FROM, s.* the fields of a column that has some",
                        ));
                    }
                };
            }
            if fields.iter().all(Option::is_none) {
                passed += 1;
                continue;
            }
            dialect::place_fields(statement, passed, &fields);
        }
        Ok(())
    }
}
