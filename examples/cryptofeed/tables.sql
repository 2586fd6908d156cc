CREATE TABLE IF NOT EXISTS trades (
  timestamp TIMESTAMP, receipt TIMESTAMP, exchange SYMBOL, symbol SYMBOL,
  side SYMBOL, amount DOUBLE, price DOUBLE, id VARCHAR, type SYMBOL
) TIMESTAMP(timestamp) SERIES BY (exchange, symbol);
CREATE TABLE IF NOT EXISTS ticker (
  timestamp TIMESTAMP, receipt TIMESTAMP, exchange SYMBOL, symbol SYMBOL, bid DOUBLE, ask DOUBLE
) TIMESTAMP(timestamp) SERIES BY (exchange, symbol);
CREATE TABLE IF NOT EXISTS book (
  timestamp TIMESTAMP, receipt TIMESTAMP, exchange SYMBOL, symbol SYMBOL, data VARCHAR
) TIMESTAMP(timestamp) SERIES BY (exchange, symbol);
CREATE TABLE IF NOT EXISTS candles (
  timestamp TIMESTAMP, receipt TIMESTAMP, exchange SYMBOL, symbol SYMBOL,
  start TIMESTAMP, stop TIMESTAMP, interval SYMBOL, trades BIGINT,
  open DOUBLE, close DOUBLE, high DOUBLE, low DOUBLE, volume DOUBLE, closed BOOLEAN
) TIMESTAMP(timestamp) SERIES BY (exchange, symbol);
