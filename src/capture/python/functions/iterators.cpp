// Iterators and views of containers. Most of their classes have no names: what makes them stands in their place. All of
// their methods are special ones.
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kIteratorClasses[] = {
    {"builtins", "enumerate zip map filter reversed"},
    {"builtins",
     "type(iter([])) type(iter(())) type(iter({})) type(iter({}.values())) type(iter({}.items())) type(iter(set())) "
     "type(iter(range(0))) type(iter(range(2**70))) type(iter('')) type(iter('\u00e9')) type(iter(b'')) "
     "type(iter(int,1)) type(iter(type('S',(),{'__getitem__':int})())) type(reversed([])) type(reversed({})) "
     "type(reversed({}.values())) type(reversed({}.items()))"},
    {"builtins", "type({}.keys()) type({}.values()) type({}.items())"},
    {"collections",
     "type(OrderedDict().keys()) type(OrderedDict().values()) type(OrderedDict().items()) type(iter(OrderedDict())) "
     "type(iter(deque())) type(reversed(deque()))"},
    {"itertools",
     "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile filterfalse groupby "
     "islice pairwise permutations product repeat starmap takewhile zip_longest _tee _grouper"},
    {"itertools", "batched", since_python(12)},
};

constexpr FunctionRow kIteratorFunctions[] = {
    {"builtins", "type({}.keys()) type({}.items())", "isdisjoint", Effect::Reads},
    {"itertools", "chain", "from_iterable", Effect::Reads},
    {"itertools", "", "tee", Effect::Reads},
};

}  // namespace

Family iterators() { return {kIteratorClasses, kIteratorFunctions}; }

}  // namespace vesta::capture
