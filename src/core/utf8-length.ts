const encoder = new TextEncoder()

/** How many bytes a text takes. */
export function utf8Length(text: string): number {
  return encoder.encode(text).length
}
