// Graph breaks: why a trace ends before its frame does, or why a frame is not traced at all. Each has one row, with its
// text, its explanation and its hint; docs/breaks.md is made from the rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vesta::capture {

enum class Break : uint8_t {
  // Calls of functions
  UnknownFunction,
  Print,
  FunctionArgument,
  UnsupportedArguments,
  UntraceableFunction,
  CompilingDisabled,
  ModuleSkipped,
  CompiledApart,
  RequestedBreak,
  CachedResultMissing,
  NewCachedFunction,
  CachedFunctionArguments,
  CachedFunctionPassed,
  OrderedDictMethod,
  NumPyArguments,
  NumPyArray,
  Coroutine,
  CompilerEntered,
  HigherOrderOperator,
  HigherOrderKernel,
  WeakReferenceCallback,
  WeakReferenceToNewObject,
  // Classes and their objects
  ClassMade,
  ClassOfMetaclass,
  ClassWithInitSubclass,
  NewClassUsed,
  LocalClassUsed,
  ClassWithDel,
  ClassUnknown,
  ClassAttributeSet,
  LastReference,
  WritingOperator,
  // Attributes
  DescriptorRead,
  ComputedAttributeRead,
  HookObject,
  TensorDict,
  ViewRequiresGrad,
  TensorHistory,
  FunctionClosure,
  AttributeOfUnknownClass,
  MemberSet,
  ComputedAttributeSet,
  AttributeSetByC,
  TensorAttributeSet,
  ClassOrTensorAttributeSet,
  FunctionAttributeSet,
  UnknownAttributeSet,
  // Imports
  ModuleImported,
  NameImported,
  ModuleNotInTable,
  // Numbers and strings
  SymbolicNumber,
  ChangingNumber,
  ChangingNumberInContainer,
  ForeignSymbol,
  IdentityOfEqualNumbers,
  AddressOfNewObject,
  // Iterators
  OuterIterator,
  // Containers and objects from outside
  ManyItems,
  ManyKeys,
  KeysWithHashRead,
  KeysWithHashWritten,
  SetOfObjects,
  SliceOfObjects,
  DequeRead,
  DefaultDictMethod,
  TensorKey,
  ObjectChanged,
  TruthUnknown,
  ClosedObject,
  UnknownObject,
  // Tensors and traces
  TensorText,
  TensorValue,
  OperatorNotTraced,
  OperatorAfterWrite,
  RandomState,
  TraceFailed,
  AutogradFunction,
  TransformedTensor,
  ForwardMode,
  SavedTensorHooks,
  Checkpoint,
  ViewRelation,
  ManyOperators,
  LongTrace,
  DeadlinePassed,
  GraphMemory,
  TensorNotReached,
  // State around the function
  NewContextVariableRead,
  NewContextVariableSet,
  ContextVariableReset,
  ContextVariableChanged,
  TorchModesChanged,
  ExceptionAtWork,
  OuterExceptionRaised,
  Raised,
  // Objects that live on after a graph
  NotRebuilt,
  NewTypeNotRebuilt,
  SelfReferenceNotRebuilt,
  NestingTooDeep,
  ItemsNotRead,
  ManyItemsAtExit,
  KeysWithHashAtExit,
  ValueNotRead,
  UnknownTensor,
  SymbolicFloat,
  // Whole functions and calls
  GeneratorFunction,
  NotAFunction,
  Observed,
  CompilerCode,
  TooManyBreaks,
  TooManyVariants,
  RunFailed,
  CompileFailed,
  TraceDoesNotServe,
  NotWorthIt,
};

// What happens to the frame after the break.
enum class Then : uint8_t {
  GoOn,                 // Python executes the instruction, and the code after it is compiled
  TraceWithoutSymbols,  // the frame is traced again, with constants in place of symbolic integers
  TraceEachTime,        // as GoOn; the next call may not break, so it is traced again (a few times)
  RunEager,             // no part of the frame may be compiled
};

struct BreakRow {
  Break id;
  std::string_view name;  // in kebab case; the heading of docs/breaks.md
  std::string_view text;  // what the program does; an fmt pattern with at most two arguments
  std::string_view why;   // why Vesta cannot compile it: one or two sentences
  std::string_view hint;  // what to do: one clause, without a full stop
  Then then = Then::GoOn;
};

// The break of one program, its text filled in. Empty: there is none.
struct Reason {
  Break id = Break::TooManyBreaks;
  std::string text;
  bool empty() const { return text.empty(); }
};

const BreakRow& row(Break id);
std::span<const BreakRow> break_rows();  // in the order of the enum
Reason reason_for(Break id, std::string_view first = {}, std::string_view second = {});

}  // namespace vesta::capture
