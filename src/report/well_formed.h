#pragma once

#include <expat.h>

#include <string>

/// For tests.
namespace monkeytree {

/// Why a text is not well-formed XML; empty where it is.
inline std::string xml_fault(const std::string& text) {
  XML_Parser parser = XML_ParserCreate("UTF-8");
  std::string fault;
  if (XML_Parse(parser, text.data(), static_cast<int>(text.size()), 1) != XML_STATUS_OK) {
    fault = std::string(XML_ErrorString(XML_GetErrorCode(parser))) + " in line " +
            std::to_string(XML_GetCurrentLineNumber(parser));
  }
  XML_ParserFree(parser);
  return fault;
}

}  // namespace monkeytree
