//! The columns of a request, filled row by row or all at once.

use super::column::Column;
use crate::{Limits, json::reader::Reader};
use penstock_core::{Datatype, Error, InferRequest, ModelSpec, Protocol, Result, names};
use smallvec::SmallVec;

/// The inputs of one request on their way to tensors.
#[derive(Debug)]
pub(crate) struct Table<'s> {
    spec: &'s ModelSpec,
    columns: SmallVec<[Column<'s>; 2]>,
}

impl<'s> Table<'s> {
    /// An empty table. `with_batch` is whether the values have the batch axis themselves.
    pub(crate) fn new(spec: &'s ModelSpec, limits: &'s Limits, with_batch: bool) -> Self {
        let columns = (0..spec.inputs.len()).map(|index| Column::new(spec, limits, index, with_batch)).collect();
        Self { spec, columns }
    }

    /// Reads one value of each input: an object by name, or the only input's value itself.
    ///
    /// # Errors
    /// `InvalidInput` that names the input.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>, row: usize) -> Result<()> {
        match self.columns.as_mut_slice() {
            [column] if !is_named(reader, column)? => column.read(reader)?,
            _ => self.read_object(reader, row, false)?,
        }
        self.check(row)
    }

    /// Returns the request, of `rows` rows along a new batch axis if set.
    ///
    /// # Errors
    /// `InvalidInput` for shapes that the model does not accept.
    pub(crate) fn finish(self, rows: Option<usize>) -> Result<InferRequest> {
        let given = self.columns.into_iter().filter(|column| column.count > 0);
        let tensors = given.map(|column| column.finish(rows)).collect::<Result<SmallVec<[_; 2]>>>()?;
        InferRequest::assemble(self.spec, tensors, Protocol::Http)
    }

    /// Reads one value of each input from an object by name. `null` stands for an optional input that is not given.
    ///
    /// # Errors
    /// `InvalidInput` that names the input.
    pub(crate) fn read_named(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.read_object(reader, 0, true)?;
        self.check(0)
    }

    /// `nullable`: `null` stands for an optional input that is not given.
    fn read_object(&mut self, reader: &mut Reader<'_>, row: usize, nullable: bool) -> Result<()> {
        if reader.peek() != Some(b'{') {
            return Err(Error::invalid(format!(
                "expected an object with the inputs of model '{}': {}",
                self.spec.name,
                names(&self.spec.inputs)
            )));
        }
        reader.bump();
        let mut first = true;
        while let Some(key) = reader.key(&mut first)? {
            let column = &mut self.columns[self.spec.input_index(&key.text()?)?];
            let name = &column.spec().name;
            if column.count > row {
                return Err(Error::invalid(format!("input '{name}' is given twice")));
            }
            if column.count < row {
                return Err(Error::invalid(format!("input '{name}' is given, the instances before it lack it")));
            }
            if nullable && column.spec().optional && reader.peek() == Some(b'n') && reader.word("null") {
                continue;
            }
            column.read(reader)?;
        }
        Ok(())
    }

    /// Checks that every input has its value for `row`; an optional one has it in all rows or in none.
    fn check(&self, row: usize) -> Result<()> {
        for column in self.columns.iter().filter(|column| column.count <= row) {
            let name = &column.spec().name;
            if column.count > 0 {
                return Err(Error::invalid(format!("input '{name}' is missing, the instances before it have it")));
            }
            if !column.spec().optional {
                return Err(Error::invalid(format!(
                    "input '{name}' is missing, model '{}' expects {}",
                    self.spec.name,
                    names(&self.spec.inputs)
                )));
            }
        }
        Ok(())
    }
}

/// Returns whether the only input's value is in an object under its name.
fn is_named(reader: &mut Reader<'_>, column: &Column<'_>) -> Result<bool> {
    if reader.peek() != Some(b'{') || column.spec().document {
        return Ok(false);
    }
    let mut inside = reader.from(reader.at() + 1);
    let key = inside.key(&mut true)?;
    let is_base64 = match key {
        Some(key) => *key.bytes()? == *b"b64",
        None => false,
    };
    Ok(!(is_base64 && column.spec().datatype == Datatype::Bytes))
}
