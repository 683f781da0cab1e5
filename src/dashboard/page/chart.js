/**
 * Lines and bars of values over time. No elements here: all of it can be tested without a browser.
 * @module
 */

/** The height and width of every chart, in units of its own: it is stretched to its place. */
export const chartSize = { width: 300, height: 60 }

/** @typedef {readonly (number | undefined)[]} Values undefined: there is none, and the line is broken */

/**
 * A line through the values, as the path of an SVG. A value between two gaps is a short dash.
 * @param {Values} values
 * @param {number} top the value at the upper edge
 */
export function linePath(values, top) {
  const step = chartSize.width / Math.max(1, values.length - 1)
  let isDrawing = false
  return values
    .flatMap((value, index) => {
      if (value === undefined) {
        isDrawing = false
        return []
      }
      const at = `${rounded(index * step)} ${heightOf(value, top)}`
      const command = isDrawing ? `L ${at}` : `M ${at} h 1`
      isDrawing = true
      return [command]
    })
    .join(' ')
}

/**
 * A bar for each value that is not 0.
 * @param {Values} values
 * @param {number} top
 */
export function barsPath(values, top) {
  const step = chartSize.width / Math.max(1, values.length)
  return values
    .flatMap((value = 0, index) => {
      if (value === 0) return []
      const [left, right] = [rounded(index * step + step * 0.1), rounded((index + 1) * step - step * 0.1)]
      return [`M ${left} ${chartSize.height} V ${heightOf(value, top)} H ${right} V ${chartSize.height} Z`]
    })
    .join(' ')
}

/**
 * A round number at or above all values, and at least 1.
 * @param {Values} values
 */
export function topOf(values) {
  const most = Math.max(1, ...values.map((value = 0) => value))
  const unit = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 5, 10].map((times) => times * unit).find((top) => top >= most) ?? most
}

/**
 * @param {number} value
 * @param {number} top
 */
function heightOf(value, top) {
  return rounded(chartSize.height - (Math.min(value, top) / top) * (chartSize.height - 2))
}

/** @param {number} number */
function rounded(number) {
  return Math.round(number * 10) / 10
}
