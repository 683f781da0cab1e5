/** What a URL says to us beside what it says to the client, and the URL without it. Several hosts make it no plain URL. */
export function mongodbParameters(url: string): { readonly url: string; readonly options: { collection?: string } } {
  const [address = '', query] = url.split(/\?(.*)/s, 2)
  if (query === undefined) return { url, options: {} }
  const parameters = new URLSearchParams(query)
  const collection = parameters.get('collection')
  if (collection === null || collection === '') return { url, options: {} }
  const rest = query.split('&').filter((parameter) => !parameter.startsWith('collection='))
  return { url: rest.length === 0 ? address : `${address}?${rest.join('&')}`, options: { collection } }
}
