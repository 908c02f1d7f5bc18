/** Preloaded (`--import`) by the process of a rehearsal, and by each thread of it: turns the network off before anything else is loaded. */
import { connect } from '../db/client.ts'
import { networkOff } from '../rehearsal/network-off.ts'

const { sql } = connect({ database: process.env.DATABASE_URL ?? '' })
const { host, port, path, database } = sql.options

export const network = networkOff({
  servers: host.map((name, index) => ({ host: name, port: Number(port[index]) })),
  path: path ? String(path) : null,
  database,
})
