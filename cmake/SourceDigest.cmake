# A script: writes the header OUT, which defines NAME as a digest of the files in FILES (separated by |). A name that
# contains the digest differs between builds of different sources.
string(REPLACE "|" ";" files "${FILES}")
set(digests "")
foreach(file IN LISTS files)
  file(SHA256 ${file} one)
  string(APPEND digests "${one}")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 32 digest)
file(WRITE ${OUT} "#pragma once\n#define ${NAME} \"${digest}\"\n")
