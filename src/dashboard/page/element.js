/**
 * Builds elements. Text is inserted only as text: names and metadata come from strangers.
 * @module
 */

/** @typedef {string | number | Node | null | undefined} Child */
/** @typedef {Readonly<Record<string, string | boolean | number | undefined>>} Attributes */

/**
 * An element with attributes and children. True sets an attribute without a value, false leaves it out.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name)
  setAttributes(made, attributes)
  made.append(...present(children))
  return made
}

/**
 * An SVG element with attributes and children.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name)
  setAttributes(made, attributes)
  made.append(...present(children))
  return made
}

/**
 * The element of the page with this id. Throws if the page has none.
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} id
 * @returns {Kind}
 */
export function byId(id) {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`The page has no element "${id}".`)
  return /** @type {Kind} */ (found)
}

/**
 * @param {Element} target
 * @param {Attributes} attributes
 */
function setAttributes(target, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue
    target.setAttribute(name, value === true ? '' : String(value))
  }
}

/**
 * @param {readonly Child[]} children
 * @returns {(string | Node)[]}
 */
function present(children) {
  return children.flatMap((child) => {
    if (child === null || child === undefined) return []
    return [child instanceof Node ? child : String(child)]
  })
}
