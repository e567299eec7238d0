# hologram_torch/recurrent.py: nn.LSTM as elementary operations, step by step
"""Dynamo hands over nn.LSTM, nn.GRU and nn.RNN only with torch._dynamo.config.allow_rnn = True; without it they run in
eager between two graphs. PyTorch itself then unrolls GRU and RNN, but makes LSTM one operator of another library."""


def lstm(x, hidden, weights, has_biases, layers, dropout, training, bidirectional, batch_first):
    """torch.lstm on a plain tensor. → (output, last hidden states, last cell states)"""
    import torch
    from torch._decomp import decompositions as parts

    projected = hidden[0].size(2) != hidden[1].size(2)
    out, last = parts._rnn_helper(
        x, list(zip(*hidden, strict=True)), parts.gather_params(weights, has_biases, projected), has_biases, layers,
        dropout, training, bidirectional, batch_first, parts.one_layer_lstm,
    )  # fmt: skip
    states, cells = zip(*last, strict=True)
    return out, torch.stack(states, 0), torch.stack(cells, 0)
