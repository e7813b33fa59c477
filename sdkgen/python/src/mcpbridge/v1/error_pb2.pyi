from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JsonRpcError(_message.Message):
    __slots__ = ("code", "message", "data")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    data: str
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., data: _Optional[str] = ...) -> None: ...

class CallFailure(_message.Message):
    __slots__ = ("outcome", "reason", "retry_after_ms")
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTCOME_UNSPECIFIED: _ClassVar[CallFailure.Outcome]
        OUTCOME_NOT_EXECUTED: _ClassVar[CallFailure.Outcome]
        OUTCOME_UNKNOWN: _ClassVar[CallFailure.Outcome]
        OUTCOME_EXECUTED: _ClassVar[CallFailure.Outcome]
    OUTCOME_UNSPECIFIED: CallFailure.Outcome
    OUTCOME_NOT_EXECUTED: CallFailure.Outcome
    OUTCOME_UNKNOWN: CallFailure.Outcome
    OUTCOME_EXECUTED: CallFailure.Outcome
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    outcome: CallFailure.Outcome
    reason: str
    retry_after_ms: int
    def __init__(self, outcome: _Optional[_Union[CallFailure.Outcome, str]] = ..., reason: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...
