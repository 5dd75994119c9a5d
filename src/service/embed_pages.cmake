# cmake -DFOLDER=web/dist -DFILES="a;b" -DOUTPUT=pages.cc -P embed_pages.cmake: the bytes of files
# as constants.
set(arrays "")
set(list "")
set(number 0)
foreach(name ${FILES})
  file(READ ${FOLDER}/${name} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {\n${bytes}\n};\n")
  string(APPEND list "    {\"${name}\", bytes(kFile${number}, sizeof kFile${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"service/page.h\"\n
namespace monkeytree {
namespace {\n
std::string_view bytes(const unsigned char* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}\n
${arrays}
}  // namespace\n
std::span<const PageFile> page_files() {
  static const PageFile kFiles[] = {\n${list}  };
  return kFiles;
}\n
}  // namespace monkeytree\n")
