# cmake -DINPUT=file -DOUTPUT=file.cc -P embed.cmake: the text of a file as a constant.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#include \"workload/catalogue_text.h\"\n
namespace monkeytree {\n
const std::string_view kStandardCatalogue = R\"yaml(${text})yaml\";\n
}  // namespace monkeytree\n")
