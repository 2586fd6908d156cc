//! Conditions that a scan works out before it reads the columns it yields: only those of rows that are left are read.
//!
//! ```text
//! FilterExec over ScanExec -> Condition (an expression over columns of the table)
//! a scan begins -> Test: AND, OR of leaves (packed values | ids of symbols | any expression)
//! ```
//!
//! A condition on one SYMBOL column, whatever it is, is worked out once for each symbol; rows then compare ids. Where the
//! ids that fulfil it are neighbours, as one id is, and for numbers between bounds, statistics of blocks say of most
//! blocks that all or none of their rows do, and others are compared as they are packed.

use super::columns::{Columns, read_scattered, symbols_by_id};
use crate::error::{external, from_arrow};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, UInt32Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::metrics::Count;
use std::ops::Range;
use std::sync::Arc;
use tickstone_engine::part::StatValue;
use tickstone_engine::{ColumnBound, Segment, TableSnapshot};
use tickstone_model::ColumnType;

/// Symbols up to which a condition is worked out for each of a column's.
const SYMBOLS_MAX: usize = 65_536;

/// Of so many rows one is left: the rest of a condition is worked out for these alone.
const FEW: usize = 8;
/// Packed ids are compared with so many bounds more quickly than each is looked up.
const BOUNDS_MAX: usize = 4;

/// Rows of a range below which it is quicker to pick rows than to compare blocks as they are packed.
const SCATTERED_ROWS: usize = 64;

/// Which rows of a table are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// Over `columns`, in their order.
    pub(super) expr: Arc<dyn PhysicalExpr>,
    /// Columns of the table.
    pub(super) columns: Vec<usize>,
    /// Theirs.
    pub(super) schema: SchemaRef,
}

/// A condition over the rows of one snapshot.
#[derive(Debug)]
pub(crate) struct Test {
    node: Node,
}

#[derive(Debug)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    /// Values within any of some bounds of one column, or (`true`) all others, NULLs among them.
    Bounds(Vec<ColumnBound>, bool, Evaluated),
    /// Symbols, by id.
    Ids(Ids),
    Expr(Evaluated),
}

/// Which symbols of a column fulfil a condition, by id, and whether NULL does.
#[derive(Debug)]
struct Ids {
    column: usize,
    holds: Vec<bool>,
    null: bool,
    evaluated: Evaluated,
}

/// An expression over some columns of the table.
#[derive(Debug)]
struct Evaluated {
    expr: Arc<dyn PhysicalExpr>,
    columns: Columns,
}

impl Condition {
    /// The condition and one more.
    pub(super) fn and(&self, other: &Self) -> Result<Self> {
        let mut both = self.clone();
        let mut fields = both.schema.fields().to_vec();
        let places: Vec<usize> = other
            .columns
            .iter()
            .zip(other.schema.fields())
            .map(|(column, field)| match both.columns.iter().position(|of| of == column) {
                Some(place) => place,
                None => {
                    both.columns.push(*column);
                    fields.push(Arc::clone(field));
                    both.columns.len() - 1
                }
            })
            .collect();
        both.schema = Arc::new(Schema::new(fields));
        let expr = moved(&other.expr, &|at| places.get(at).copied())?;
        both.expr = Arc::new(BinaryExpr::new(both.expr, Operator::And, expr));
        Ok(both)
    }

    /// How to find out about rows of a snapshot.
    pub(super) fn test(&self, table: &TableSnapshot) -> Result<Test> {
        Ok(Test { node: self.node(&self.expr, table)?.settled() })
    }

    fn node(&self, expr: &Arc<dyn PhysicalExpr>, table: &TableSnapshot) -> Result<Node> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>()
            && matches!(binary.op(), Operator::And | Operator::Or)
            && !is_volatile(expr)
        {
            let both = vec![self.node(binary.left(), table)?, self.node(binary.right(), table)?];
            return Ok(Node::joined(both, *binary.op() == Operator::And));
        }
        let read: Vec<usize> = {
            let mut read: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
            read.sort_unstable();
            read
        };
        let over = |places: &[usize]| -> Result<Evaluated> {
            let fields: Vec<_> = places.iter().map(|at| Arc::clone(&self.schema.fields()[*at])).collect();
            let columns: Vec<usize> = places.iter().map(|at| self.columns[*at]).collect();
            let expr = moved(expr, &|at| places.iter().position(|place| *place == at))?;
            let columns = Columns::new(table, Arc::new(Schema::new(fields)), &columns, Count::new());
            Ok(Evaluated { expr, columns })
        };
        let evaluated = over(&read)?;
        let [only] = read[..] else { return Ok(Node::Expr(evaluated)) };
        let column = self.columns[only];
        if is_volatile(expr) {
            return Ok(Node::Expr(evaluated));
        }
        if let Some(dictionary) = table.dictionary(column) {
            let symbols = dictionary.values();
            if symbols.len() > SYMBOLS_MAX {
                return Ok(Node::Expr(evaluated));
            }
            return Ok(match by_symbol(&evaluated, symbols as ArrayRef) {
                Ok((holds, null)) => Node::Ids(Ids { column, holds, null, evaluated }),
                // Some symbol that no row may have is none for the expression.
                Err(_) => Node::Expr(evaluated),
            });
        }
        let column_type = table.schema().columns().get(column).map(|of| of.column_type);
        Ok(match column_type.and_then(|of| bound_of(expr, of)) {
            Some((min, max)) => Node::Bounds(vec![ColumnBound { column, min, max }], false, evaluated),
            None => Node::Expr(evaluated),
        })
    }
}

/// Whether each symbol, and NULL, fulfils a condition.
fn by_symbol(of: &Evaluated, symbols: ArrayRef) -> Result<(Vec<bool>, bool)> {
    let count = symbols.len();
    let ids = (0..count as u32).map(Some).chain([None]).collect::<UInt32Array>();
    let all = symbols_by_id(&ids, symbols)?;
    let batch = RecordBatch::try_new(Arc::clone(of.columns.schema()), vec![all]).map_err(from_arrow)?;
    let held = held(&of.expr, &batch)?;
    let mut held: Vec<bool> = held.iter().collect();
    let null = held.pop().unwrap_or(false);
    Ok((held, null))
}

impl Ids {
    /// Makes one of two on the same column.
    fn join(&mut self, other: Self, all: bool) {
        let join = |a: bool, b: bool| if all { a && b } else { a || b };
        self.holds.iter_mut().zip(other.holds).for_each(|(held, of)| *held = join(*held, of));
        self.null = join(self.null, other.null);
        self.evaluated = self.evaluated.join(other.evaluated, all);
    }

    /// As bounds where the ids that fulfil it, or do not, are neighbours, or a few times neighbours.
    fn settled(self) -> Node {
        // With NULL among those that fulfil it, those that do not are looked for.
        let wanted = !self.null;
        let bound = |least: i128, most: i128| {
            let (min, max) = (Some(StatValue::Int(least)), Some(StatValue::Int(most)));
            ColumnBound { column: self.column, min, max }
        };
        let mut bounds = Vec::new();
        let mut first = 0;
        for same in self.holds.chunk_by(|a, b| a == b) {
            let end = first + same.len();
            if same[0] == wanted {
                bounds.push(bound(first as i128, end as i128 - 1));
            }
            first = end;
        }
        if bounds.is_empty() {
            // That is no id at all.
            bounds.push(bound(-2, -1));
        }
        if bounds.len() > BOUNDS_MAX {
            return Node::Ids(self);
        }
        Node::Bounds(bounds, self.null, self.evaluated)
    }

    fn rows(&self, segment: &Segment, ranges: &[Range<usize>]) -> Result<BooleanBuffer> {
        let ids = read_scattered(segment, self.column, ranges)?;
        let ids = ids
            .as_primitive_opt::<UInt32Type>()
            .ok_or_else(|| internal_datafusion_err!("symbol ids are {}", ids.data_type()))?;
        let of = |id: u32| self.holds.get(id as usize).copied().unwrap_or(false);
        let values = ids.values();
        let held = BooleanBuffer::collect_bool(ids.len(), |row| of(values[row]));
        Ok(match ids.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => held,
            Some(nulls) if self.null => &held | &!nulls.inner(),
            Some(nulls) => &held & nulls.inner(),
        })
    }
}

/// The bounds, both inside, that a comparison of a column with a literal means for a column of numbers; `None` of any
/// other.
fn bound_of(
    expr: &Arc<dyn PhysicalExpr>,
    column: ColumnType,
) -> Option<(Option<StatValue>, Option<StatValue>)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let literal = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().map(|of| of.value().clone());
    let (value, of, op) = match literal(binary.right()) {
        Some(value) => (value, binary.left(), *binary.op()),
        None => (literal(binary.left())?, binary.right(), binary.op().swap()?),
    };
    let is_float = matches!(column, ColumnType::Float32 | ColumnType::Float64);
    // A FLOAT as a DOUBLE is the same number.
    let widened = of.downcast_ref::<CastExpr>().filter(|cast| {
        column == ColumnType::Float32 && *cast.cast_type() == DataType::Float64 && cast.expr().is::<Column>()
    });
    if !of.is::<Column>() && widened.is_none() {
        return None;
    }
    let same_type = match widened {
        Some(_) => value.data_type() == DataType::Float64,
        None => value.data_type() == column.edge_type(),
    };
    if !same_type || value.is_null() {
        return None;
    }
    if is_float {
        let value = match value {
            ScalarValue::Float32(Some(value)) => f64::from(value),
            ScalarValue::Float64(Some(value)) => value,
            _ => return None,
        };
        // Comparisons with NaN are not those of bounds.
        if value.is_nan() {
            return None;
        }
        // There is no number past an infinity, but NaN is.
        if value.is_infinite() && matches!(op, Operator::Gt | Operator::Lt) {
            return None;
        }
        // Zeros are equal whatever their sign.
        let value = value + 0.0;
        let at = |value: f64| Some(StatValue::Float(value));
        return Some(match op {
            Operator::Eq => (at(value), at(value)),
            Operator::GtEq => (at(value), None),
            Operator::Gt => (at(value.next_up()), None),
            Operator::LtEq => (None, at(value)),
            Operator::Lt => (None, at(value.next_down())),
            _ => return None,
        });
    }
    let value = match super::constraint::stat_value(&value)? {
        StatValue::Int(value) if column != ColumnType::Boolean => value,
        _ => return None,
    };
    let at = |value: i128| Some(StatValue::Int(value));
    Some(match op {
        Operator::Eq => (at(value), at(value)),
        Operator::GtEq => (at(value), None),
        Operator::Gt => (at(value.checked_add(1)?), None),
        Operator::LtEq => (None, at(value)),
        Operator::Lt => (None, at(value.checked_sub(1)?)),
        _ => return None,
    })
}

/// An expression whose columns are at other places.
fn moved(
    expr: &Arc<dyn PhysicalExpr>,
    place: &dyn Fn(usize) -> Option<usize>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let at = place(column.index())
            .ok_or_else(|| internal_datafusion_err!("a condition on column {column} that is not read"))?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
    };
    Arc::clone(expr).transform_up(replace).data()
}

/// The rows of a batch for which an expression is true.
fn held(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanBuffer> {
    let held = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    let held = held
        .as_boolean_opt()
        .ok_or_else(|| internal_datafusion_err!("a condition gives {}", held.data_type()))?;
    Ok(match held.null_count() {
        0 => held.values().clone(),
        _ => prep_null_mask_filter(held).values().clone(),
    })
}

impl Test {
    /// One bit for each row of some ranges of a segment, one range after the other: set where the row is wanted.
    pub(crate) fn rows(&self, segment: &Segment, ranges: &[Range<usize>]) -> Result<BooleanBuffer> {
        self.node.rows(segment, ranges)
    }
}

impl Node {
    /// Two conditions that must both hold, or (`false`) one of which must. Those on symbols of one column become one.
    fn joined(both: Vec<Node>, all: bool) -> Self {
        let mut nodes: Vec<Node> = Vec::new();
        for node in both {
            let more = match node {
                Node::All(more) if all => more,
                Node::Any(more) if !all => more,
                one => vec![one],
            };
            for node in more {
                let Node::Ids(ids) = node else {
                    nodes.push(node);
                    continue;
                };
                let known = nodes.iter_mut().find_map(|known| match known {
                    Node::Ids(known) if known.column == ids.column => Some(known),
                    _ => None,
                });
                match known {
                    Some(known) => known.join(ids, all),
                    None => nodes.push(Node::Ids(ids)),
                }
            }
        }
        match (nodes.len(), all) {
            (1, _) => nodes.swap_remove(0),
            (_, true) => Node::All(nodes),
            (_, false) => Node::Any(nodes),
        }
    }

    /// With what is cheap to find out first, and symbols by bounds where they can be.
    fn settled(self) -> Self {
        let settle = |nodes: Vec<Node>| {
            let mut nodes: Vec<Node> = nodes.into_iter().map(Node::settled).collect();
            nodes.sort_by_key(Node::cost);
            nodes
        };
        match self {
            Node::All(nodes) => Node::All(settle(nodes)),
            Node::Any(nodes) => Node::Any(settle(nodes)),
            Node::Ids(ids) => ids.settled(),
            node => node,
        }
    }

    /// Whether it can be found out for any row, at little cost.
    fn is_cheap(&self) -> bool {
        match self {
            Node::Bounds(..) | Node::Ids(_) => true,
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().all(Node::is_cheap),
            Node::Expr(_) => false,
        }
    }

    fn cost(&self) -> usize {
        match self {
            Node::Bounds(bounds, ..) => bounds.len(),
            Node::Ids(_) => BOUNDS_MAX,
            Node::All(nodes) | Node::Any(nodes) => nodes.iter().map(Node::cost).sum(),
            Node::Expr(_) => 4 * BOUNDS_MAX,
        }
    }

    /// Those of the rows whose bits are set already for which it is true.
    fn rows_of(
        &self,
        segment: &Segment,
        ranges: &[Range<usize>],
        of: &BooleanBuffer,
    ) -> Result<BooleanBuffer> {
        if of.count_set_bits() == of.len() {
            return self.rows(segment, ranges);
        }
        let true_of = self.rows(segment, &kept(ranges, of))?;
        let mut found = BooleanBufferBuilder::new(of.len());
        found.append_n(of.len(), false);
        for (row, at) in of.set_indices().enumerate() {
            found.set_bit(at, true_of.value(row));
        }
        Ok(found.finish())
    }

    fn rows(&self, segment: &Segment, ranges: &[Range<usize>]) -> Result<BooleanBuffer> {
        match self {
            Node::All(nodes) => {
                let mut all: Option<BooleanBuffer> = None;
                for node in nodes {
                    let both = match (all, node) {
                        (None, node) => node.rows(segment, ranges)?,
                        // Only rows that are left are worked out, which may be the only ones that can be.
                        (Some(all), node) if !node.is_cheap() => node.rows_of(segment, ranges, &all)?,
                        (Some(all), node) if all.count_set_bits() * FEW < all.len() => {
                            node.rows_of(segment, ranges, &all)?
                        }
                        (Some(all), node) => &all & &node.rows(segment, ranges)?,
                    };
                    if both.count_set_bits() == 0 {
                        return Ok(both);
                    }
                    all = Some(both);
                }
                all.ok_or_else(|| internal_datafusion_err!("a condition without conditions"))
            }
            Node::Any(nodes) => {
                let mut any: Option<BooleanBuffer> = None;
                for node in nodes {
                    let these = node.rows(segment, ranges)?;
                    any = Some(any.map_or_else(|| these.clone(), |any| &any | &these));
                }
                any.ok_or_else(|| internal_datafusion_err!("a condition without conditions"))
            }
            // Scattered rows are picked, not compared as they are packed.
            Node::Bounds(_, _, expr) if is_scattered(ranges) => expr.rows(segment, ranges),
            Node::Bounds(bounds, others, expr) => {
                let mut found: Vec<BooleanBuffer> = Vec::with_capacity(ranges.len());
                for rows in ranges {
                    let mut any: Option<BooleanBuffer> = None;
                    for bound in bounds {
                        match segment.filter(bound, rows.clone()).map_err(external)? {
                            Some(bits) => any = Some(any.map_or_else(|| bits.clone(), |any| &any | &bits)),
                            None => return expr.rows(segment, ranges),
                        }
                    }
                    found.extend(any);
                }
                let found = joined(found);
                Ok(if *others { !&found } else { found })
            }
            Node::Ids(ids) => ids.rows(segment, ranges),
            Node::Expr(expr) => expr.rows(segment, ranges),
        }
    }
}

/// Whether ranges are of few rows each, and many.
fn is_scattered(ranges: &[Range<usize>]) -> bool {
    let rows: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    ranges.len() > 8 && rows < ranges.len() * SCATTERED_ROWS
}

impl Evaluated {
    /// Both of two over the same column, or one of them.
    fn join(&self, other: Self, all: bool) -> Self {
        let op = if all { Operator::And } else { Operator::Or };
        let expr = Arc::new(BinaryExpr::new(Arc::clone(&self.expr), op, other.expr));
        Self { expr, columns: other.columns }
    }

    fn rows(&self, segment: &Segment, ranges: &[Range<usize>]) -> Result<BooleanBuffer> {
        let rows = ranges.iter().map(ExactSizeIterator::len).sum();
        let stored = self.columns.indices().map(|column| read_scattered(segment, column, ranges));
        let batch = self.columns.batch(stored.collect::<Result<_>>()?, rows)?;
        held(&self.expr, &batch)
    }
}

/// Bits one after the other.
fn joined(all: Vec<BooleanBuffer>) -> BooleanBuffer {
    if let [only] = all.as_slice() {
        return only.clone();
    }
    let mut joined = BooleanBufferBuilder::new(all.iter().map(BooleanBuffer::len).sum());
    all.iter().for_each(|bits| joined.append_buffer(bits));
    joined.finish()
}

/// The rows of ranges whose bits are set, as ranges.
pub(super) fn kept(ranges: &[Range<usize>], bits: &BooleanBuffer) -> Vec<Range<usize>> {
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut before = 0;
    for rows in ranges {
        for (from, to) in bits.slice(before, rows.len()).set_slices() {
            let (from, to) = (rows.start + from, rows.start + to);
            match kept.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => kept.push(from..to),
            }
        }
        before += rows.len();
    }
    kept
}
