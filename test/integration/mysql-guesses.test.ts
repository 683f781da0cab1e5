import { afterAll, describe } from 'vitest'
import { MariadbServer } from '../support/mariadb-server.ts'
import { guessesHold } from '../support/mysql-guesses.ts'

const server = await MariadbServer.start({ 'innodb-flush-log-at-trx-commit': '1' })
afterAll(() => server.stop())

describe('rows are changed without a reading', () => guessesHold(server))
