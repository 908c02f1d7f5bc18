/** `npm run cli -- [--data <folder>] <command>`: the `integrations` command on the tables and the server of the running `npm start`. */
import { relative, resolve } from 'node:path'
import { runningOn } from './lock.ts'

const USUAL_FOLDER = '.data'

const [option, given] = process.argv.slice(2)
const folder = resolve(option === '--data' ? (given ?? USUAL_FOLDER) : USUAL_FOLDER)
const state = runningOn(folder)
if (state === null || Object.keys(state.environment).length === 0) {
  const what = state === null ? 'Nothing runs' : 'It is still starting'
  process.stderr.write(
    `${what} in ${relative('.', folder) || '.'}. Run \`npm start\`, and this when its addresses are shown.\n`,
  )
  process.exit(1)
}
if (option === '--data') process.argv.splice(2, 2)
Object.assign(process.env, state.environment)
await import('../src/bin/integrations.ts')
