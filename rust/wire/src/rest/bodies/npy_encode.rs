//! Writes what `numpy.load` reads.

use super::{
    numpy_strings::{self, Kind},
    tensors::{BodyWriter, Output},
};
use penstock_core::{
    BodyChunks, Datatype, Error, Result,
    copies::{self, Step},
};

/// Alignment of the data in a file, in bytes.
const ALIGNMENT: usize = 64;

pub(super) fn encode(outputs: &[Output<'_>]) -> Result<BodyChunks> {
    let [output] = outputs else {
        return Err(Error::invalid(format!("an npy answer is one output, not {}", outputs.len())));
    };
    let mut writer = BodyWriter::default();
    write(&mut writer, output)?;
    Ok(writer.finish())
}

/// Writes one array as a file.
pub(super) fn write(writer: &mut BodyWriter, output: &Output<'_>) -> Result<()> {
    let tensor = output.tensor;
    if tensor.datatype() == Datatype::Bytes {
        let (kind, letter) = if output.spec.text { (Kind::Text, "<U") } else { (Kind::Bytes, "|S") };
        let (padded, width) = numpy_strings::padded(&output.spec.name, tensor, kind)?;
        header(&mut writer.out, &format!("{letter}{width}"), tensor.shape());
        copies::count(Step::Encode, padded.len());
        writer.out.extend_from_slice(&padded);
        return Ok(());
    }
    header(&mut writer.out, &descr(tensor.datatype()), tensor.shape());
    writer.tensor(tensor.buffer());
    Ok(())
}

/// The dtype of elements that are not strings, with its byte order.
fn descr(datatype: Datatype) -> String {
    let order = if datatype.size() == Some(1) { '|' } else { '<' };
    format!("{order}{}", datatype.numpy_code())
}

fn header(out: &mut Vec<u8>, descr: &str, shape: &[usize]) {
    let mut sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    if let [only] = sizes.as_mut_slice() {
        // A tuple of one.
        only.push(',');
    }
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", sizes.join(", "));
    let before = 10;
    let whole = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    text.extend(std::iter::repeat_n(' ', whole - before - text.len() - 1));
    text.push('\n');
    out.extend_from_slice(b"\x93NUMPY\x01\0");
    // Thirty-two sizes of twenty digits are far below this.
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
