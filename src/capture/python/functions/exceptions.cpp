// The exceptions and warnings of the module builtins.
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kExceptionClasses[] = {
    {"builtins",
     "BaseException BaseExceptionGroup Exception ExceptionGroup GeneratorExit KeyboardInterrupt SystemExit"},
    {"builtins",
     "ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError ChildProcessError "
     "ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EOFError FileExistsError "
     "FileNotFoundError FloatingPointError ImportError IndentationError IndexError InterruptedError IsADirectoryError "
     "KeyError LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError "
     "OverflowError PermissionError ProcessLookupError RecursionError ReferenceError RuntimeError StopAsyncIteration "
     "StopIteration SyntaxError SystemError TabError TimeoutError TypeError UnboundLocalError UnicodeDecodeError "
     "UnicodeEncodeError UnicodeError UnicodeTranslateError ValueError ZeroDivisionError"},
    {"builtins",
     "BytesWarning DeprecationWarning EncodingWarning FutureWarning ImportWarning PendingDeprecationWarning "
     "ResourceWarning RuntimeWarning SyntaxWarning UnicodeWarning UserWarning Warning"},
    {"builtins", "PythonFinalizationError _IncompleteInputError", since_python(13)},
};

constexpr FunctionRow kExceptionFunctions[] = {
    {"builtins", "BaseException", "add_note with_traceback", Effect::WritesSelf},
    {"builtins", "BaseExceptionGroup", "derive split subgroup", Effect::Reads},
};

}  // namespace

Family exceptions() { return {kExceptionClasses, kExceptionFunctions}; }

}  // namespace vesta::capture
