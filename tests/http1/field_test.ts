import assert from "node:assert/strict";
import { latin1 } from "../../lib/http1/encode.ts";
import {
  FIELD_NAMES,
  FieldId,
  fieldId,
  fieldIdOf,
  isFieldValue,
  isHopByHop,
  isRequestTarget,
  isToken,
} from "../../lib/http1/field.ts";

Deno.test("Every known field name is found in any case, as octets and as text", () => {
  const ids = Object.values(FieldId).filter((id) => id !== FieldId.Other);
  assert.equal(ids.length, FIELD_NAMES.length - 1);
  for (const id of ids) {
    const name = FIELD_NAMES[id]!;
    for (const form of [name, name.toUpperCase(), name[0]!.toUpperCase() + name.slice(1)]) {
      const bytes = latin1(`xx${form}yy`);
      assert.equal(fieldId(bytes, 2, 2 + form.length), id, form);
      assert.equal(fieldIdOf(form), id, form);
    }
  }
});

Deno.test("The key of a field id spells its name", () => {
  for (const [key, id] of Object.entries(FieldId)) {
    if (id === FieldId.Other) continue;
    assert.equal(FIELD_NAMES[id]!.replaceAll("-", ""), key.toLowerCase());
  }
});

Deno.test("A name that differs from a known one by one octet is another name", () => {
  for (const name of FIELD_NAMES.slice(1)) {
    for (let i = 0; i < name.length; i++) {
      for (const other of ["z", "_", "\r", "\u017f", "\u212a"]) {
        if (name[i] === other) continue;
        const changed = name.slice(0, i) + other + name.slice(i + 1);
        assert.equal(fieldIdOf(changed), FieldId.Other, changed);
        if (other > "\xff") continue;
        assert.equal(fieldId(latin1(changed), 0, changed.length), FieldId.Other, changed);
      }
    }
    assert.equal(fieldIdOf(name + "s"), FieldId.Other);
    assert.equal(fieldIdOf(" " + name), FieldId.Other);
  }
  assert.equal(fieldIdOf(""), FieldId.Other);
  assert.equal(fieldId(new Uint8Array(0), 0, 0), FieldId.Other);
});

Deno.test("Exactly the connection's own fields are hop-by-hop", () => {
  const hopByHop = FIELD_NAMES.filter((_, id) => isHopByHop(id));
  assert.deepEqual(hopByHop, [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
  ]);
  assert.equal(isHopByHop(FieldId.Other), false);
});

Deno.test("isToken follows RFC 9110 5.6.2", () => {
  for (let code = 0; code < 0x180; code++) {
    const char = String.fromCharCode(code);
    assert.equal(isToken("a" + char), /^[!#$%&'*+.^_`|~0-9A-Za-z-]$/.test(char), `U+${code}`);
  }
  assert.equal(isToken(""), false);
});

Deno.test("isFieldValue takes latin1 without controls and without blanks at the ends", () => {
  for (let code = 0; code < 0x180; code++) {
    const expected = code === 9 || (code >= 0x20 && code !== 0x7f && code <= 0xff);
    assert.equal(isFieldValue(`a${String.fromCharCode(code)}b`), expected, `U+${code}`);
  }
  assert.equal(isFieldValue(""), true);
  for (const value of [" a", "a ", "\ta", "a\t", " ", "a\r\n", "a\nb"]) {
    assert.equal(isFieldValue(value), false, JSON.stringify(value));
  }
});

Deno.test("isRequestTarget takes octets 0x21 to 0x7E only", () => {
  for (let code = 0; code < 0x180; code++) {
    assert.equal(isRequestTarget("/" + String.fromCharCode(code)), code > 0x20 && code < 0x7f);
  }
  assert.equal(isRequestTarget(""), false);
});
