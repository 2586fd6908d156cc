//! What the server says of itself and of its types.

use crate::shared::Shared;
use arrow_flight::sql::metadata::{SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    XdbcDataType, XdbcDatetimeSubcode,
};

/// What it can do.
pub(super) fn sql_info(shared: &Shared) -> SqlInfoDataBuilder {
    let mut info = SqlInfoDataBuilder::new();
    let millis = |name| {
        let time = shared.settings.time(name).unwrap_or_default();
        i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
    };
    info.append(SqlInfo::FlightSqlServerName, "Tickstone");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, shared.database.engine().is_read_only());
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Transaction as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, millis("statement_timeout"));
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, millis("flight_idle_timeout"));
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, true);
    let of_case = SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64;
    info.append(SqlInfo::SqlIdentifierCase, of_case);
    info.append(SqlInfo::SqlQuotedIdentifierCase, of_case);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
    info
}

/// The types of columns.
pub(super) fn type_info() -> XdbcTypeInfoDataBuilder {
    let mut all = XdbcTypeInfoDataBuilder::new();
    let exact = |name: &str, data_type, digits, unsigned| XdbcTypeInfo {
        column_size: Some(digits),
        unsigned_attribute: Some(unsigned),
        fixed_prec_scale: true,
        num_prec_radix: Some(10),
        ..plain(name, data_type)
    };
    let inexact = |name: &str, data_type, bits| XdbcTypeInfo {
        column_size: Some(bits),
        unsigned_attribute: Some(false),
        num_prec_radix: Some(2),
        ..plain(name, data_type)
    };
    let quoted = |name: &str, data_type, size| XdbcTypeInfo {
        column_size: Some(size),
        literal_prefix: Some("'".to_string()),
        literal_suffix: Some("'".to_string()),
        case_sensitive: true,
        ..plain(name, data_type)
    };
    let moment = |name: &str, data_type, size, code| XdbcTypeInfo {
        sql_data_type: XdbcDataType::XdbcDatetime,
        datetime_subcode: Some(code),
        case_sensitive: false,
        ..quoted(name, data_type, size)
    };
    all.append(plain("BOOLEAN", XdbcDataType::XdbcBit));
    all.append(exact("TINYINT", XdbcDataType::XdbcTinyint, 3, false));
    all.append(exact("SMALLINT", XdbcDataType::XdbcSmallint, 5, false));
    all.append(exact("INT", XdbcDataType::XdbcInteger, 10, false));
    all.append(exact("BIGINT", XdbcDataType::XdbcBigint, 19, false));
    all.append(exact("BIGINT UNSIGNED", XdbcDataType::XdbcBigint, 20, true));
    all.append(inexact("FLOAT", XdbcDataType::XdbcReal, 24));
    all.append(inexact("DOUBLE", XdbcDataType::XdbcDouble, 53));
    all.append(XdbcTypeInfo {
        create_params: Some(vec!["precision".to_string(), "scale".to_string()]),
        minimum_scale: Some(0),
        maximum_scale: Some(38),
        ..exact("DECIMAL", XdbcDataType::XdbcDecimal, 38, false)
    });
    all.append(quoted("SYMBOL", XdbcDataType::XdbcVarchar, i32::MAX));
    all.append(quoted("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX));
    all.append(quoted("UUID", XdbcDataType::XdbcChar, 36));
    all.append(quoted("BINARY", XdbcDataType::XdbcVarbinary, i32::MAX));
    // 1 is the code of a date.
    all.append(moment("DATE", XdbcDataType::XdbcDate, 10, XdbcDatetimeSubcode::XdbcSubcodeYear));
    all.append(moment(
        "TIMESTAMP",
        XdbcDataType::XdbcTimestamp,
        29,
        XdbcDatetimeSubcode::XdbcSubcodeTimestamp,
    ));
    all
}

fn plain(name: &str, data_type: XdbcDataType) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_string(),
        data_type,
        sql_data_type: data_type,
        local_type_name: Some(name.to_string()),
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        auto_increment: Some(false),
        ..XdbcTypeInfo::default()
    }
}
