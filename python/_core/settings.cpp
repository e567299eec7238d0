// python/_core/settings.cpp: the table of environment variables, and warnings that wait for a log.
#include "base/settings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/notices.h"
#include "bindings.h"

namespace nb = nanobind;

namespace hologram::python {
namespace {

using settings::Kind;

nb::object value_of(std::string_view name) {
  for (const settings::Setting& s : settings::table()) {
    if (s.name != name) continue;
    if (s.kind == Kind::on_off) return nb::cast(settings::is_on(name));
    if (s.kind == Kind::size || s.kind == Kind::count) return nb::cast(settings::number(name));
    if (s.kind == Kind::seconds) return nb::cast(settings::seconds(name));
    if (s.kind == Kind::list) return nb::cast(settings::list(name));
    return nb::cast(settings::text(name));
  }
  throw nb::key_error(std::string(name).c_str());
}

nb::list settings_table() {
  nb::list out;
  const auto text = [](std::string_view s) { return nb::str(s.data(), s.size()); };
  for (const settings::Setting& s : settings::table())
    out.append(
        nb::make_tuple(text(s.name), settings::expected(s), text(s.fallback), text(s.meaning)));
  return out;
}

}  // namespace

void tell_notices() {
  const std::vector<std::string> texts = take_notices();
  if (texts.empty()) return;
  nb::gil_scoped_acquire held;  // compiling lets it go
  for (const std::string& text : texts)
    nb::module_::import_("hologram._log").attr("log").attr("warning")("%s", text);
}

void bind_settings(nb::module_& m) {
  m.def("setting", &value_of, nb::arg("name"),
        "The value of an environment variable of the table: True or False, a number, a list, or a "
        "text; None where it is not set, \"\" for a path that is off. ValueError for a value that "
        "it may not have.");
  m.def("offer_setting", &settings::offer, nb::arg("name"), nb::arg("path"),
        "What a variable that names a path stands for where the environment does not set it.");
  m.def("settings", &settings_table,
        "The table of environment variables: name, values, default and meaning of each.");
  m.def(
      "refuse_setting",
      [](const std::string& name, const std::string& expected) {
        settings::refuse(name, expected);
      },
      nb::arg("name"), nb::arg("expected"),
      "Raises the ValueError of a value that only its reader can judge.");
  m.def(
      "check_settings",
      [] {
        settings::check();
        tell_notices();
      },
      "Reads every variable of the table. ValueError names the first with a value that it may not "
      "have; a name HOLOGRAM_... that is in no table is logged as a warning, once.");
}

}  // namespace hologram::python
