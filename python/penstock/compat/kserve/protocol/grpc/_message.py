"""`Message`: protobuf messages, without registration in a descriptor pool.

The package protobuf is not used: with its messages, in a private pool, 7 of 14 tests in `test_kserve_messages.py` fail.
Its containers cannot be pickled, it refuses messages of other generated classes, and gRPC would need one more package.
"""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.compat.kserve.protocol.grpc import _descriptors, _text, _wire
from penstock.compat.kserve.protocol.grpc._fields import Field
from penstock.compat.kserve.protocol.grpc._values import MessageMap, Repeated, RepeatedMessages, checked

__all__ = ["Message"]


class Message:
    """A message. Fields are attributes, and keywords of the constructor.

    Unset fields have a default: 0, False, empty text, list or map, or a message without values.
    """

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    FULL_NAME: ClassVar[str] = ""
    _by_name: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        cls._by_name = {field.name: field for field in cls.FIELDS}
        for field in cls.FIELDS:
            setattr(cls, f"{field.name.upper()}_FIELD_NUMBER", field.number)

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            if name not in self._by_name:
                raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
            if value is not None:
                self._put(self._by_name[name], value)

    @classmethod
    def _of(cls, value: Any) -> Any:
        """Returns a message of this class: of a dict, or a copy of a message of this or a generated class."""
        if isinstance(value, dict):
            return cls(**value)
        if not isinstance(value, Message) and not hasattr(value, "SerializeToString"):
            raise TypeError(f"got {type(value).__name__}, expected {cls.__name__}")
        if isinstance(value, Message) and not isinstance(value, cls):
            raise TypeError(f"got {type(value).__name__}, expected {cls.__name__}")
        return cls.FromString(value.SerializeToString())

    def _put(self, field: Field, value: Any) -> None:
        if field.plain:
            setattr(self, field.name, value)
        else:
            value = self.__dict__[field.name] = self._container(field, value)
            if not field.repeated:
                value.SetInParent()

    def _container(self, field: Field, value: Any) -> Any:
        if field.is_map:
            return MessageMap(field, value)
        if not field.repeated:
            assert field.message is not None
            return field.message._of(value)
        return Repeated(field, value) if field.message is None else RepeatedMessages(field, value)

    def __getattr__(self, name: str) -> Any:
        field = self._by_name.get(name)
        if field is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")
        if field.plain:
            return field.default
        value = self.__dict__[name] = self._container(field, {} if field.is_map or not field.repeated else ())
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._by_name.get(name)
        if field is None:
            raise AttributeError(f'Protocol message {type(self).__name__} has no "{name}" field.')
        if not field.plain:
            kind = "map, or repeated field" if field.repeated else "message field"
            raise AttributeError(f'Assignment not allowed to {kind} "{name}" in protocol message object.')
        value = checked(field, value)
        if field.oneof is not None:
            self.ClearField(field.oneof)
        self.__dict__[name] = value

    def HasField(self, field_name: str) -> bool:
        """Returns whether a message field, a field of a oneof, or the oneof is set.

        Raises:
            ValueError: the field is unknown, or has no presence.
        """
        field = self._by_name.get(field_name)
        if field is None:
            if any(one.oneof == field_name for one in self.FIELDS):
                return self.WhichOneof(field_name) is not None
            raise ValueError(f'Protocol message {type(self).__name__} has no "{field_name}" field.')
        if field.repeated or (field.plain and field.oneof is None):
            raise ValueError(f"Field {self.FULL_NAME}.{field_name} does not have presence.")
        return self._is_set(field)

    def WhichOneof(self, oneof_group: str) -> str | None:
        """Returns the name of the field of a oneof that is set.

        Raises:
            ValueError: the oneof is unknown.
        """
        fields = [field for field in self.FIELDS if field.oneof == oneof_group]
        if not fields:
            raise ValueError(f"Protocol message {type(self).__name__} has no oneof {oneof_group!r} field.")
        return next((field.name for field in fields if field.name in self.__dict__), None)

    def ListFields(self) -> list[tuple[Any, Any]]:
        """Returns descriptor and value of each set field, by field number."""
        return [(_descriptors.field(type(self), one), self.__dict__[one.name]) for one in self._set_fields()]

    def ClearField(self, field_name: str) -> None:
        """Sets a field or a oneof to its default."""
        names = [field.name for field in self.FIELDS if field_name in (field.name, field.oneof)]
        if not names:
            raise ValueError(f'Protocol message {type(self).__name__} has no "{field_name}" field.')
        for name in names:
            self.__dict__.pop(name, None)

    def Clear(self) -> None:
        """Sets all fields to their defaults."""
        self.__dict__.clear()

    def CopyFrom(self, other: Any) -> None:
        """Replaces all values by another message's."""
        taken = self._of(other)
        self.Clear()
        self.__dict__.update(taken.__dict__)

    def MergeFrom(self, other: Any) -> None:
        """Merges another message's values: lists are extended, maps updated, messages merged."""
        _wire.read(self, self._of(other).SerializeToString())

    def SerializeToString(self, **_: Any) -> bytes:
        """Returns the message's bytes."""
        return _wire.written(self)

    def SerializePartialToString(self, **_: Any) -> bytes:
        """Returns the message's bytes, as `SerializeToString`: no field is required."""
        return _wire.written(self)

    def ParseFromString(self, serialized: bytes) -> int:
        """Replaces all values by those of a message's bytes; returns their length.

        Raises:
            ValueError: the bytes are not such a message.
        """
        self.Clear()
        return self.MergeFromString(serialized)

    def MergeFromString(self, serialized: bytes) -> int:
        """Merges the values of a message's bytes; returns their length.

        Raises:
            ValueError: the bytes are not such a message.
        """
        _wire.read(self, bytes(serialized))
        return len(serialized)

    @classmethod
    def FromString(cls, s: bytes) -> Any:
        """Returns the message of its bytes.

        Raises:
            ValueError: the bytes are not such a message.
        """
        message = cls()
        message.MergeFromString(s)
        return message

    def ByteSize(self) -> int:
        """Returns the length of `SerializeToString`."""
        return len(_wire.written(self))

    def IsInitialized(self) -> bool:
        """Returns True: no field is required."""
        return True

    def SetInParent(self) -> None:
        """Marks the message as present in its parent, even without values."""
        self.__dict__["_present"] = True

    def _set_fields(self) -> list[Field]:
        return [field for field in self.FIELDS if self._is_set(field)]

    def _is_set(self, field: Field) -> bool:
        if field.name not in self.__dict__:
            return False
        value = self.__dict__[field.name]
        if field.kind.name == "MESSAGE" and not field.repeated:
            return bool(value._set_fields()) or "_present" in value.__dict__
        return field.oneof is not None or bool(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or type(self) is not type(other):
            return NotImplemented
        own = {field.name: self.__dict__[field.name] for field in self._set_fields()}
        return own == {field.name: other.__dict__[field.name] for field in other._set_fields()}

    def __hash__(self) -> int:
        raise TypeError("unhashable object: a message can change")

    def __repr__(self) -> str:
        return _text.shown(self)

    def __deepcopy__(self, memo: Any = None) -> Any:
        return self._of(self)

    def __reduce__(self) -> Any:
        return (type(self).FromString, (self.SerializeToString(),))

    @property
    def DESCRIPTOR(self) -> Any:
        """The message's descriptor, for tools such as `google.protobuf.json_format`."""
        return _descriptors.message(type(self))
