// Classes and their objects.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::ClassMade, "class-made", "makes a class",
     "A metaclass makes the class and may change other classes, which Vesta cannot undo.", kMakeClassOutside},
    {Break::ClassOfMetaclass, "class-of-metaclass", "makes a class by a metaclass of its own",
     "The metaclass may run any code when the class is made.", kMakeClassOutside},
    {Break::ClassWithInitSubclass, "class-with-init-subclass", "makes a class whose base has an __init_subclass__",
     "__init_subclass__ may write the new class into objects that live on.", kMakeClassOutside},
    {Break::NewClassUsed, "new-class-used", "uses a class that the compiled function itself makes",
     "The class is another object in each call, so no guard can name it.", kMakeClassOutside},
    {Break::LocalClassUsed, "local-class-used",
     "uses a class that a function has made, which may be another class in the next call",
     "A guard on the class would fail in each call.", "make the class at the top of a module"},
    {Break::ClassWithDel, "class-with-del", "makes an object of class {}, which has a __del__",
     "A graph does not know when an object is destroyed, so __del__ would run at another time.",
     "make the object outside of the compiled function"},
    {Break::ClassUnknown, "class-unknown", "makes an object of class {}, which Vesta does not know",
     "The class is written in C, and Vesta does not know what its constructor reads and writes.",
     "make the object outside of the compiled function; the code before and after this line is compiled"},
    {Break::ClassAttributeSet, "class-attribute-set", "sets an attribute of a class",
     "Other objects of the class read the attribute too, and Vesta cannot undo the change.",
     "keep the value on an instance"},
    {Break::LastReference, "last-reference",
     "drops a reference to an object of class {}, so that its __del__, a callback of a weak reference or a generator's "
     "finally block may run",
     "The trace keeps the object alive, and this code would run later than in eager mode.",
     "keep the object in a variable until the compiled function has returned"},
    {Break::WritingOperator, "writing-operator",
     "uses an operator of class {} that is written in C and changes the object", "Vesta cannot undo such a change.",
     "use the operator outside of the compiled function; the code before and after this line is compiled"},
};

}  // namespace

std::span<const BreakRow> classes_rows() { return kRows; }

}  // namespace vesta::capture
