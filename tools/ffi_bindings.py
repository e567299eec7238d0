# tools/ffi_bindings.py: the Python functions of hologram_ffi, written from the C header when _core is built
"""Usage: ffi_bindings.py HEADER OUT.

Every function of the header becomes one of the same name without its prefix. Out-parameters become results (several a
tuple), a (text, capacity, needed) triple becomes a str, and a failed status an exception. Functions of another shape are
written by hand in python/_core/sdk_ffi.cpp and named in BY_HAND; any new one that fits neither stops the build.
"""

import os
import pathlib
import re
import sys

BY_HAND = set(
    """set_log_callback executor_wrap stats class_neighbors buffer_copy_from_bytes buffer_to_bytes buffer_fill_element
    buffer_export view_release elementwise elementwise_by_id tensor_create tensor_dimensions tensor_to_bytes graph_apply executable_run
    executable_run_with_symbols executable_run_on_stream stream_from_native stream_native stream_copy_from_bytes
    stream_copy_to_bytes buffer_device_ptr new_executor_with_backend tensor_from_dlpack_capsule archive_open_memory
    archive_replace""".split()
)
TOKEN = re.compile(
    r"/\* ---- (?P<section>.*?) -+\s*(?P<about>.*?)\*/"
    r"|/\*\*(?P<doc>.*?)\*/(?!<)"
    r"|HOLOGRAM_API\s+(?P<result>[\w ]+?\s*\*?)\s*(?P<name>hologram_\w+)\((?P<parameters>[^;]*)\);",
    re.DOTALL,
)
NARROW = {"uint8_t", "uint32_t", "int32_t"}
RELEASE = set("synchronize stream_synchronize event_synchronize tensor_matmul tensor_contiguous graph_compile along_axis_f32".split())


def clean(comment):
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    return " ".join(line for line in lines if line)


def functions(header):
    """(name, result, [(type, name)], text) in the header's order. The text is the comment right above a function, or else
    the one that opens its section, or else that of the function before it if it is named alike."""
    out, texts, section, about, doc = [], {}, "", "", None
    for token in TOKEN.finditer(header):
        if token["section"] is not None:
            section, about, doc = token["section"].strip(), clean(token["about"]), None
        elif token["doc"] is not None:
            doc = clean(token["doc"])
        else:
            name = token["name"].removeprefix("hologram_")
            parameters = []
            for text in re.sub(r"\s+", " ", token["parameters"]).strip().split(", "):
                if text != "void" and name not in BY_HAND:
                    kind, last = re.fullmatch(r"(.*?)(\w+)", text).groups()
                    parameters.append((kind.replace(" *", "*").strip(), {"in": "input"}.get(last, last)))
            if name.endswith("_u64") and name[:-4] in texts:
                doc = doc or texts[name[:-4]]
            if about:
                doc = doc or f"{section}. {about}"
            elif out and len(os.path.commonprefix([name, out[-1][0]])) > len("buffer_"):
                doc = doc or out[-1][3]
            texts[name] = doc or f"{section}: {name.replace('_', ' ')}."
            out.append((name, token["result"].strip(), parameters, texts[name]))
            doc = None
    return out


def is_out(kind):
    return kind.endswith("*") and not kind.startswith("const char") and (not kind.startswith("const ") or "**" in kind)


def binding(name, result, parameters, doc):
    types = [kind for kind, _ in parameters]
    text = types[-3:] == ["char*", "size_t", "size_t*"]
    inputs = parameters[:-3] if text else [p for p in parameters if not is_out(p[0])]
    outs = [] if text else [p for p in parameters if is_out(p[0])]
    declared, passed, checks = [], {}, []
    for kind, p in inputs:
        passed[p] = p
        if kind in NARROW:
            declared.append(f"int64_t {p}")
            passed[p] = f'narrow<{kind}>({p}, "{name}", "{p}")'
        elif kind == "hologram_dtype":
            declared.append(f"nb::object {p}")
            passed[p] = f"dtype_of({p})"
        elif kind == "const void*":
            declared.append(f"uint64_t {p}")
            passed[p] = f"reinterpret_cast<const void*>(static_cast<uintptr_t>({p}))"
        elif kind in {"uint64_t", "size_t", "int64_t", "float", "double", "hologram_handle", "const char*"}:
            declared.append(f"{kind} {p}")
        else:
            raise SystemExit(f"ffi_bindings.py: {name}: parameter '{kind} {p}' has no rule; write it by hand")
    call = f"hologram_{name}"
    if result != "hologram_status":
        body = f"return std::string({call}({', '.join(passed.values())}));"
    elif text:
        given = "".join(passed[p] + ", " for _, p in inputs)
        body = f"return text_of([&](char* s, size_t n, size_t* needed) {{ return {call}({given}s, n, needed); }});"
    else:
        lines = [f"{kind[:-1]} {p}{{}};" for kind, p in outs]
        given = ", ".join(passed.get(p, "&" + p) for _, p in parameters)
        if "length" in passed or name in RELEASE or name.startswith(("gemm", "matvec")):
            size = "length" if "length" in passed else "long_length"
            values = []
            for _, p in inputs:  # conversions need the interpreter
                if passed[p] != p:
                    lines.append(f"const auto {p}_value = {passed[p]};")
                    given = given.replace(passed[p], p + "_value")
            lines.append(f"MaybeRelease others(static_cast<uint64_t>({size}) >= long_length);")
        lines.append(f"raise({call}({given}));")
        values = [f"result_of({p})" for _, p in outs]
        if len(values) == 1:
            lines.append(f"return {values[0]};")
        elif values:
            lines.append(f"return std::make_tuple({', '.join(values)});")
        if name.endswith("cleanup"):
            lines[-1] = f"cleaned({call}({given}));"
        body = " ".join(lines)
    arguments = "".join(f', "{p}"_a' for _, p in inputs)
    return f'  ffi_module.def("{name}", []({", ".join(declared)}) {{ {body} }}{arguments},\n        R"--({doc})--");'


def main(header, out):
    rows = functions(pathlib.Path(header).read_text())
    lines = ["// Written by tools/ffi_bindings.py.", "static void bind_plain(nb::module_& ffi_module) {"]
    lines += [binding(*row) for row in rows if row[0] not in BY_HAND]
    lines += ["}", "static constexpr const char* by_hand_docs[][2] = {"]
    lines += [f'    {{"{name}", R"--({doc})--"}},' for name, _, _, doc in rows if name in BY_HAND]
    pathlib.Path(out).write_text("\n".join([*lines, "};", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
