import type { Connections } from './connections.ts'

/** For how long the server has been up. */
export async function uptimeOf(connections: Connections, withinMs: number): Promise<number> {
  const sql = 'select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::text as seconds'
  const [row] = await connections.query(sql, [], withinMs)
  return Number(row?.['seconds'] ?? 0) * 1000
}
