/** Whether a text has as many bytes as characters. Asked once of a long text, not of its parts. */
export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length
}
