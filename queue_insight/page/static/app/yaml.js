// YAML of plain values, to copy: block style, every text that could be read otherwise in quotes.

// Plain words only; all else is quoted as JSON, which YAML reads alike.
const PLAIN = /^[A-Za-z_][A-Za-z0-9_./-]*$/;
const OTHER_VALUES = /^(true|false|yes|no|on|off|null|y|n|nan|inf|infinity)$/i;

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !OTHER_VALUES.test(value) ? value : JSON.stringify(value);
}

function isScalar(value) {
  return value === null || typeof value !== "object" || Object.keys(value).length === 0;
}

/** Return a value of JSON as YAML. */
export function toYaml(value, indent = "") {
  if (isScalar(value)) return `${indent}${scalar(value)}\n`;
  if (Array.isArray(value)) {
    // A block below a dash begins on its line.
    return value.map((each) => `${indent}- ${toYaml(each, `${indent}  `).trimStart()}`).join("");
  }
  return Object.entries(value)
    .map(([key, each]) =>
      isScalar(each)
        ? `${indent}${scalar(key)}: ${scalar(each)}\n`
        : `${indent}${scalar(key)}:\n${toYaml(each, `${indent}  `)}`,
    )
    .join("");
}
