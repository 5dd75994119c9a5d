# cmake -DINPUT=file -DOUTPUT=file.cc -P embed.cmake: the text of a file as a constant. In pieces:
# a string may not be as long as it likes.
file(READ ${INPUT} text)
string(LENGTH "${text}" size)
set(pieces "")
set(at 0)
while(at LESS size)
  string(SUBSTRING "${text}" ${at} 8000 piece)
  string(APPEND pieces "\n    R\"json(${piece})json\"")
  math(EXPR at "${at} + 8000")
endwhile()
file(WRITE ${OUTPUT} "#include \"service/api.h\"\n
namespace monkeytree {\n
const std::string_view kOpenApi =${pieces};\n
}  // namespace monkeytree\n")
