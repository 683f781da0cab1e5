/** The name this store goes by in a connection URL. */
export const storeName = 'sqlite'
