import * as api from './api';
import type { SnapshotFile } from './model';

type Kind = 'topology' | 'jobs' | 'nodes';

/// Files that somebody drops onto the page: a snapshot, or Slurm's topology and `squeue --json`, in
/// any order and also one after the other.
export class DroppedFiles {
  private texts: Partial<Record<Kind, string>> = {};
  private imported = false; // those that are there; nodes may still be added to them

  /// A snapshot with the warnings of its import, or a sentence that says what is still missing or
  /// wrong.
  async take(
    files: readonly File[],
  ): Promise<{ snapshot: SnapshotFile; warnings: string[] } | string> {
    const fresh: Partial<Record<Kind, string>> = {};
    for (const file of files) {
      const text = await file.text();
      const what = kindOf(text);
      if (typeof what !== 'string') {
        this.texts = {};
        return { snapshot: what, warnings: [] };
      }
      if (what !== 'topology' && what !== 'jobs' && what !== 'nodes')
        return `${file.name}: ${what}`;
      fresh[what] = text;
    }
    // After an import a topology or jobs begin another cluster.
    if (this.imported && ('topology' in fresh || 'jobs' in fresh)) this.texts = {};
    this.imported = false;
    Object.assign(this.texts, fresh);
    const { topology, jobs, nodes } = this.texts;
    if (topology === undefined || jobs === undefined) return this.missing();
    const answer = await api.importTexts({
      topology,
      jobs,
      ...(nodes === undefined ? {} : { nodes }),
    });
    this.imported = true;
    return {
      snapshot: JSON.parse(answer.files.snapshot) as SnapshotFile,
      warnings: answer.warnings,
    };
  }

  private missing(): string {
    const got = [
      this.texts.topology !== undefined && 'a topology',
      this.texts.jobs !== undefined && 'the jobs',
      this.texts.nodes !== undefined && 'the nodes',
    ].filter((what) => what !== false);
    const lacks = [
      this.texts.topology === undefined && 'the topology.conf (or topology.yaml)',
      this.texts.jobs === undefined && 'what squeue --json prints',
    ].filter((what) => what !== false);
    return `Got ${got.join(' and ')}; now drop ${lacks.join(' and ')}.`;
  }
}

/// A snapshot, what of Slurm's it is, or a sentence that says why it is nothing of these.
function kindOf(text: string): SnapshotFile | string {
  if (text.trim() === '') return 'the file is empty';
  if (/[\0\ufffd]/.test(text)) return 'this is no text; expected a snapshot or files of Slurm';
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    if (/^\s*[{[]/.test(text)) return 'JSON that is cut off or broken';
  }
  if (typeof json === 'object' && json !== null && !Array.isArray(json)) {
    const members = json as Record<string, unknown>;
    if (members['schema'] === 'monkeytree/snapshot/v1') return json as SnapshotFile;
    if (Array.isArray(members['jobs'])) return 'jobs';
    if (Array.isArray(members['nodes'])) return 'nodes';
    return 'expected a snapshot, or what squeue --json prints';
  }
  const isTopology =
    /^\s*(SwitchName|BlockName)\s*=/im.test(text) ||
    /\b(topology|switches|blocks)["']?\s*:/i.test(text);
  return isTopology
    ? 'topology'
    : 'expected a snapshot, a topology.conf or topology.yaml, or what squeue --json prints';
}
