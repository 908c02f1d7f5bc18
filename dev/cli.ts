/** `npm run cli -- [--data <folder>] <command>`: the `integrations` command on the tables and the server of the running `npm start`. */
import { relative, resolve } from 'node:path'
import { runningOn } from './lock.ts'

const USUAL_FOLDER = '.data'
const ASKS_ONLY: readonly string[] = ['--help', '-h', '--version']

const [option, given] = process.argv.slice(2)
if (option === '--data') process.argv.splice(2, 2)
const folder = resolve(option === '--data' ? (given ?? USUAL_FOLDER) : USUAL_FOLDER)
const state = runningOn(folder)
if (state !== null && Object.keys(state.environment).length > 0) Object.assign(process.env, state.environment)
else if (!loadsNothing(process.argv.slice(2))) {
  const where = relative('.', folder) || '.'
  process.stderr.write(
    state === null
      ? `Nothing runs in ${where}. Run \`npm start\`, and this when its addresses are shown.\n`
      : `It is still starting in ${where}. Wait until \`npm start\` shows its addresses.\n`,
  )
  process.exit(1)
}
await import('../src/bin/integrations.ts')

/** Help and the version: docs/commands.md, "Options of every command". */
function loadsNothing(words: readonly string[]): boolean {
  const end = words.indexOf('--')
  const options = words.slice(0, end === -1 ? undefined : end)
  return words[0] === 'help' || options.some((word) => ASKS_ONLY.includes(word))
}
