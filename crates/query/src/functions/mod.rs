//! Functions of market data: aggregates, scalars and window functions.
