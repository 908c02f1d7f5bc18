/**
 * `npm run mutate`: changes the rules and the SQL functions one place at a time, and tells which changes no test notices.
 * `-- --rules`, `-- --sql`: one kind. `-- <path> …`: these files. `--minutes 10`: a function in SQL gets no more, the next run goes on with
 * it. A file whose text and tests are those of the kept result is not run again, unless it is named or was left unfinished.
 */
import { parseArgs } from 'node:util'
import type { FileResult } from './mutation/results.ts'
import { hashOf, keepResult, killedPercent, readResults } from './mutation/results.ts'
import { mutateFunction, SqlBench } from './mutation/sql.ts'
import { functionFiles, testsOfFunction } from './mutation/sql-tests.ts'
import { mutateRule, ruleFiles, testsOfRule } from './mutation/stryker.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rules: { type: 'boolean', default: false },
    sql: { type: 'boolean', default: false },
    minutes: { type: 'string', default: '600' },
  },
})
const minutes = Number(values.minutes)
if (!(minutes > 0)) {
  console.error(`--minutes: expected a number above 0, received ${values.minutes}`)
  process.exit(1)
}
const known = [...ruleFiles(), ...functionFiles()]
const unknown = positionals.filter((file) => !known.includes(file))
if (unknown.length > 0) {
  console.error(`No rules and no SQL function: ${unknown.join(', ')}. There are:\n  ${known.join('\n  ')}`)
  process.exit(1)
}
const isFunction = (file: string): boolean => file.endsWith('.sql')
const isWanted = (file: string): boolean => values.rules === values.sql || isFunction(file) === values.sql
const files = positionals.length > 0 ? positionals : known.filter(isWanted)
const found: FileResult[] = []
let failed = false
let bench: SqlBench | undefined
for (const file of files) {
  const tests = isFunction(file) ? testsOfFunction(file) : testsOfRule(file)
  let result = readResults()[file]
  if (result === undefined || positionals.length > 0 || result.notRun > 0 || result.hash !== hashOf([file, ...tests])) {
    try {
      if (isFunction(file)) {
        bench ??= await SqlBench.open([...new Set(files.filter(isFunction).flatMap(testsOfFunction))])
        result = await mutateFunction(file, bench, minutes)
      } else result = await mutateRule(file, tests)
    } catch (error) {
      console.error(`${file}: ${error instanceof Error ? error.message : String(error)}`)
      failed = true
      continue
    }
    keepResult(file, result)
  }
  found.push(result)
  const { killed, survivors, notRun } = result
  console.log(
    `${file}: ${killed} killed, ${survivors.length} survived (${killedPercent([result])} %)${notRun > 0 ? `, ${notRun} not run yet` : ''}`,
  )
}
await bench?.close()
console.log(`${killedPercent(found)} % killed`)
process.exitCode = failed ? 1 : 0
