//! How large results are, before they are written.

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, GenericByteViewArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

/// About how many bytes a column takes, and at most a little less.
pub(super) fn about_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let range = |offsets: &[i32]| (offsets[rows] - offsets[0]).as_usize();
    let large_range = |offsets: &[i64]| (offsets[rows] - offsets[0]).as_usize();
    let per_row = match array.data_type() {
        DataType::Utf8 => return 5 * rows + range(array.as_string::<i32>().value_offsets()),
        DataType::Binary => return 5 * rows + range(array.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => return 5 * rows + large_range(array.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => return 5 * rows + large_range(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => return 5 * rows + view_bytes(array.as_string_view()),
        DataType::BinaryView => return 5 * rows + view_bytes(array.as_binary_view()),
        DataType::List(_) => return 6 * rows + 8 * range(array.as_list::<i32>().value_offsets()),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            let texts = about_bytes(values) / values.len().max(1) * values.len().min(rows);
            return 6 * rows + texts;
        }
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0) + 4,
        other => other.primitive_width().unwrap_or(1).max(8),
    };
    (per_row + 1) * rows
}

fn view_bytes<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> usize {
    array.views().iter().map(|view| *view as u32 as usize).sum()
}
