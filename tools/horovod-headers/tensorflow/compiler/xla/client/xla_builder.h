// Horovod 0.28.1 includes a header of TensorFlow by a path that TensorFlow 2.20 no longer has. With the folder of this file
// on the compiler's include path (CPLUS_INCLUDE_PATH) it compiles. TensorFlow 2.18 has its own header, which comes first.
#include "tensorflow/compiler/xla/hlo/builder/xla_builder.h"
