/** Names the client that wants to hear of its claims: 128 random bits that it made, and keeps to itself. */
export const sessionHeader = 'Leasehold-Session'

/** An id the caller knows, percent-encoded. In a header, as URLs are written to logs and an id is a secret. */
export const knownHeader = 'Leasehold-Known'

/** A digest of what the server says of its store and its limits, with every answer: another one says that they changed. */
export const storeHeader = 'Leasehold-Store'

/** What clients and servers must agree on. A change that an older client would misread makes it grow. */
export const protocolVersion = 1
