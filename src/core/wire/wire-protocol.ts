/** Names the session of a client that wants notifications: 128 random bits that the client made, and keeps secret. */
export const sessionHeader = 'Leasehold-Session'

/** An id the caller knows, percent-encoded. In a header, not the URL: URLs are logged, and an id is a secret. */
export const knownHeader = 'Leasehold-Known'

/** A digest of the server's store description and limits, sent with every answer: when it changes, so have they. */
export const storeHeader = 'Leasehold-Store'

/** The version that clients and servers must agree on. Raised by a change that an older client would misread. */
export const protocolVersion = 1
