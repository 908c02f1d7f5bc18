/** A property that fails has killed its mutant: the shortest example is of no interest. */
import fc from 'fast-check'

fc.configureGlobal({ endOnFailure: true })
