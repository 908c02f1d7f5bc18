/** Rule: docs/behaviour/doctor.md, "Remedies under npm start". */
import { describe, expect, it } from 'vitest'
import { localCommands, locally, locallySaid } from '../../../src/integrations/doctor/local-commands.ts'

const LOCAL = { integrations: 'npm run cli --', temporal: '/kept/temporal', psql: "PGPASSWORD=$(cat p) psql 'u'" }

describe('a remedy under npm start', () => {
  it.each([
    ['integrations show 7', 'npm run cli -- show 7'],
    ['temporal workflow query --type state', '/kept/temporal workflow query --type state'],
    [`psql "$DATABASE_URL" -c 'select 1'`, `PGPASSWORD=$(cat p) psql 'u' -c 'select 1'`],
    ['kill -9 4711', 'kill -9 4711'],
    ['integrations-of-another show', 'integrations-of-another show'],
  ])('%s is %s', (remedy, local) => {
    expect(locally(remedy, LOCAL)).toBe(local)
  })

  it('is the same in a message, where a command stands between backquotes', () => {
    expect(
      locallySaid('Mend `name`, then `integrations show 7`; or `temporal env list`, not integrations.', LOCAL),
    ).toBe('Mend `name`, then `npm run cli -- show 7`; or `/kept/temporal env list`, not integrations.')
  })

  it('is the usual one where the variable is not set, or empty', () => {
    expect(localCommands({})).toBeNull()
    expect(localCommands({ INTEGRATIONS_LOCAL_COMMANDS: '' })).toBeNull()
    expect(localCommands({ INTEGRATIONS_LOCAL_COMMANDS: JSON.stringify(LOCAL) })).toEqual(LOCAL)
  })

  it.each(['npm run cli', '{"integrations":"x"}', 'null'])('says what is wrong with the variable %s', (text) => {
    expect(() => localCommands({ INTEGRATIONS_LOCAL_COMMANDS: text })).toThrow(/INTEGRATIONS_LOCAL_COMMANDS.*temporal/s)
  })
})
