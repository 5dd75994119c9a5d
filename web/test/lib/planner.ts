import { type Placement } from '../../src/panel/model';
import { linesOf } from './programs';

/// What the program's planner, router and fill say about a panel (tests/web/panel_plans.cc).
export interface Answer {
  status: string; // compliant, optimal or infeasible
  moves: number;
  degrees: number[];
  mostOnOneUplink: number;
  fillMoves: number;
  fillDegrees: number[];
}

export interface Question {
  placement: Placement;
  uplinks: number;
}

export const rowsOf = (placement: Placement): string[] =>
  placement.map((rack) =>
    rack.map((job) => (job === null ? '.' : String.fromCharCode(65 + job))).join(''),
  );

export function askPlanner(questions: readonly Question[]): Answer[] {
  const numbers = (text: string): number[] => text.split(',').map(Number);
  const input = questions.map((q) => `${q.uplinks} ${rowsOf(q.placement).join('/')}\n`).join('');
  return linesOf('tests/panel_plans', [], input).map((line) => {
    const [status = '', moves, degrees = '', most, fillMoves, fillDegrees = ''] = line.split(' ');
    return {
      status,
      moves: Number(moves),
      degrees: numbers(degrees),
      mostOnOneUplink: Number(most),
      fillMoves: Number(fillMoves),
      fillDegrees: numbers(fillDegrees),
    };
  });
}
