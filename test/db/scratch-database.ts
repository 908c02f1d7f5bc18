import { randomBytes } from 'node:crypto'
import postgres from 'postgres'
import { inject } from 'vitest'

/** The URL of an empty database of its own, without our tables. The server of the tests goes away, and with it this. */
export async function scratchDatabase(): Promise<string> {
  const server = inject('postgresUrl')
  const name = `scratch_${randomBytes(6).toString('hex')}`
  const sql = postgres(server, { max: 1 })
  await sql.unsafe(`create database ${name}`)
  await sql.end()
  return Object.assign(new URL(server), { pathname: `/${name}` }).href
}
