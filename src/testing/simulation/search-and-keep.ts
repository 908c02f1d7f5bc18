/** What the command `simulate` loads once it is asked for. */
export { planText, testFileText } from './plan-text.ts'
export { search } from './simulate.ts'
