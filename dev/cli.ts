/** `npm run cli -- [--data <folder>] <command>`: the `integrations` command on the tables and the server of the running `npm start`. */
import { relative, resolve } from 'node:path'
import { runCommandLine } from '../src/bin/command-line.ts'
import { loadHost } from '../src/bin/host.ts'
import { Refused } from '../src/commands/refused.ts'
import { runningOn } from './lock.ts'

const USUAL_FOLDER = '.data'

const [option, given] = process.argv.slice(2)
if (option === '--data') process.argv.splice(2, 2)
const folder = resolve(option === '--data' ? (given ?? USUAL_FOLDER) : USUAL_FOLDER)
const state = runningOn(folder)
if (state !== null) Object.assign(process.env, state.environment)

// Asked only by a command that needs the host: `make-provider`, `completion` or `--help` run where nothing else does.
await runCommandLine(async () => {
  if (state !== null && Object.keys(state.environment).length > 0) return (await loadHost()).integrations
  const inside = relative('.', folder) || '.'
  const where = inside.startsWith('..') ? folder : inside
  throw new Refused(
    'not_loadable',
    state === null
      ? `Nothing runs in ${where}. Run \`npm start\`, and this when its addresses are shown.`
      : `It is still starting in ${where}. Wait until \`npm start\` shows its addresses.`,
  )
})
